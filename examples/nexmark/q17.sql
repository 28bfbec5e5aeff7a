-- Query 17: statistics of every auction and day.
-- As in query 15 the day is a window. An average is a DOUBLE here.
INCLUDE 'streams.sql';

SELECT
  auction,
  DATE_FORMAT(window_start, 'yyyy-MM-dd') AS day,
  COUNT(*) AS total_bids,
  COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  MIN(price) AS min_price,
  MAX(price) AS max_price,
  AVG(price) AS avg_price,
  SUM(price) AS sum_price
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '1' DAY))
GROUP BY auction, window_start, window_end;
