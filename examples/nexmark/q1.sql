-- Query 1: currency conversion.
-- As published.
INCLUDE 'streams.sql';

SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid;
