-- Q4, highest bid: the highest bid or bids in the last 10 minutes.
INCLUDE 'streams.sql';

SELECT itemID, bid_price
FROM   Bid WINDOW(RANGE 10 MINUTES)
WHERE  bid_price = (SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 10 MINUTES));
