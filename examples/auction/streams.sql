-- The online auction of Kraemer (2007), section 6.7.
-- The files are those of the workload `nexmark`; the text of the queries calls the price of a bid
-- bid_price, so the stream Bid is made from the one in the files.

CREATE STREAM BidSource (itemID BIGINT, bidderID BIGINT, price DOUBLE, bidTS TIMESTAMP)
  SOURCE 'data/bid' ORDERED BY bidTS DELAY 5 SECONDS;

CREATE STREAM Bid AS
  SELECT itemID, price AS bid_price, bidderID FROM BidSource;

CREATE STREAM OpenAuction (itemID BIGINT, sellerID BIGINT, start_price DOUBLE, openTS TIMESTAMP)
  SOURCE 'data/open_auction' ORDERED BY openTS DELAY 5 SECONDS;

CREATE STREAM ClosedAuction (itemID BIGINT, buyerID BIGINT, closeTS TIMESTAMP)
  SOURCE 'data/closed_auction' ORDERED BY closeTS DELAY 5 SECONDS;

-- A table whose rows hold from the registration on.
CREATE TABLE Person (
  id BIGINT, name STRING, emailAddress STRING, city STRING, state STRING,
  registrationTime TIMESTAMP
) SOURCE 'data/person' ORDERED BY registrationTime;
