-- Query 12: how many bids does a user make within 10 seconds?
--
-- Published in processing time, whose answers differ from run to run. There is none here; the
-- windows are those of event time.
INCLUDE 'streams.sql';

SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
