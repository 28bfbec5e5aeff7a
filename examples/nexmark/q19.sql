-- Query 19: the ten highest bids of every auction.
--
-- Published: over all bids so far, and with the rank in the result. Here a bid is forgotten after
-- 10 minutes; the rank follows from the price. Bids of the same price are taken in the order of
-- their columns.
INCLUDE 'streams.sql';

SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid WINDOW(RANGE 10 MINUTES)
)
WHERE rank_number <= 10;
