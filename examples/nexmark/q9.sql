-- Query 9: winning bids. For every auction the highest bid so far, the first of equal ones.
--
-- Published: over all auctions and bids so far. Here an auction holds while it is open, and a bid
-- for as long as an auction lasts at most; so a row is the winning bid of an open auction, the
-- last one before it closes is the winner, and nothing is kept of auctions that have closed.
INCLUDE 'streams.sql';

SELECT
  id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
  auction, bidder, price, bid_dateTime, bid_extra
FROM (
  SELECT
    A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) AS rownum
  FROM open_auction A, bid WINDOW(RANGE 20 SECONDS) B
  WHERE A.id = B.auction AND B.dateTime >= A.dateTime
)
WHERE rownum <= 1;
