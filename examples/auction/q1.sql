-- Q1, currency conversion: prices of incoming bids in euros.
INCLUDE 'streams.sql';

CREATE FUNCTION DolToEuro(x DOUBLE) RETURNS DOUBLE RETURN 0.8 * x;

SELECT itemID, DolToEuro(bid_price), bidderID FROM Bid;
