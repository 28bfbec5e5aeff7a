-- Query 11: user sessions. How many bids did a user make in each session?
--
-- Published with the older function SESSION in GROUP BY; the meaning is the same. A row holds
-- during its session: from its first bid until 10 seconds after its last one.
INCLUDE 'streams.sql';

SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(
  SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
