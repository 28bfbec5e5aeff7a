-- Query 0: pass through.
-- As published.
INCLUDE 'streams.sql';

SELECT auction, bidder, price, dateTime, extra FROM bid;
