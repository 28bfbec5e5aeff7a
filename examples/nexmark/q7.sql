-- Query 7: the highest bids of every 10 seconds.
--
-- Published: all bids are joined with the highest price of each window, and a comparison of times
-- picks those of the window. Here the bids stand in the same window, so that the comparison is
-- not needed and no bid is kept for longer.
INCLUDE 'streams.sql';

SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
FROM bid WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) AS B
JOIN (
  SELECT MAX(price) AS maxprice, window_end
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS B1
ON B.price = B1.maxprice;
