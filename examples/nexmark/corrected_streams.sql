-- The same streams as elements: out of order, and a tenth of the rows wrong at first, withdrawn
-- and replaced later. Put INCLUDE 'corrected_streams.sql' in the place of INCLUDE 'streams.sql':
-- once all has arrived, the answers are the same.
--
--   anabranch generate events --corrections 0.1 --to data        writes the files.
--
-- Without ORDERED BY lifetimes and stable points are those in the files; all columns are payload.
-- TUMBLE, HOP and SESSION ask for rows that hold for one instant, which nothing says of elements;
-- Istream gives the instant at which each begins to hold.

CREATE STREAM person_changes (
  id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
  dateTime TIMESTAMP, extra STRING
) SOURCE 'data/person';

CREATE STREAM person AS SELECT * FROM Istream(person_changes);

CREATE STREAM auction_changes (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) SOURCE 'data/auction';

CREATE STREAM auction AS SELECT * FROM Istream(auction_changes);

CREATE STREAM bid_changes (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  dateTime TIMESTAMP, extra STRING
) SOURCE 'data/bid';

CREATE STREAM bid AS SELECT * FROM Istream(bid_changes);

CREATE STREAM open_auction (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) SOURCE 'data/open_auction';

CREATE STREAM closing_auction (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING
) SOURCE 'data/closing_auction';

CREATE TABLE side_input (key BIGINT, value STRING) SOURCE 'data/side_input.csv';
