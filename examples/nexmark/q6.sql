-- Query 6: the average selling price of each seller over their last 10 closed auctions.
--
-- Published, but not supported by Flink: an OVER window of 10 rows over winning bids that still
-- change. Here a price is final when the auction closes (see closing_price.sql), and the last ten
-- of a seller are a window; auctions that close at one instant are taken in the order of their ids.
INCLUDE 'streams.sql';
INCLUDE 'closing_price.sql';

SELECT seller, AVG(final) AS avg_price
FROM closing_price WINDOW(PARTITION BY seller ROWS 10 ORDER BY id)
GROUP BY seller;
