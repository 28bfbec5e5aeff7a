-- The streams of the public Nexmark benchmark (github.com/nexmark/nexmark).
--
--   anabranch generate events --to data        writes the files that are read here.
--
-- ORDERED BY names the column of time; KEEP leaves it visible to queries. The benchmark declares
-- a watermark 4 seconds behind the newest event, and so does DELAY.

CREATE STREAM person (
  id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
  dateTime TIMESTAMP, extra STRING
) SOURCE 'data/person' ORDERED BY dateTime KEEP DELAY 4 SECONDS;

CREATE STREAM auction (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) SOURCE 'data/auction' ORDERED BY dateTime KEEP DELAY 4 SECONDS;

CREATE STREAM bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  dateTime TIMESTAMP, extra STRING
) SOURCE 'data/bid' ORDERED BY dateTime KEEP DELAY 4 SECONDS;

-- The same auctions as what they are: facts that hold while the auction is open (Kraemer 2007,
-- remark 7.2).
CREATE STREAM open_auction (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) SOURCE 'data/auction' ORDERED BY dateTime KEEP UNTIL expires DELAY 4 SECONDS;

-- The same auctions once more, each at the instant at which it closes. A row is read when the
-- auction opens, so the delay covers the longest auction.
CREATE STREAM closing_auction (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) SOURCE 'data/auction' ORDERED BY expires KEEP DELAY 20 SECONDS;

-- A table that is all there: what bids are looked up in.
CREATE TABLE side_input (key BIGINT, value STRING) SOURCE 'data/side_input.csv';
