-- Query 4: the average of the winning prices of each category.
--
-- Published: the average over all auctions so far, open ones with the highest bid so far. Here
-- only closed auctions have a winning price (see closing_price.sql), and they count for a day.
INCLUDE 'streams.sql';
INCLUDE 'closing_price.sql';

SELECT category, AVG(final) AS final
FROM closing_price WINDOW(RANGE 1 DAY)
GROUP BY category;
