-- Query 18: the last bid of every bidder on every auction.
--
-- Published: over all bids so far, state grows for ever. Here a bid is forgotten after 10 minutes.
-- Bids of the same instant are taken in the order of their columns.
INCLUDE 'streams.sql';

SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number
  FROM bid WINDOW(RANGE 10 MINUTES)
)
WHERE rank_number <= 1;
