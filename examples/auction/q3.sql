-- Q3, short auctions: auctions closed within 5 hours of opening.
INCLUDE 'streams.sql';

SELECT OpenAuction.*
FROM OpenAuction O WINDOW(RANGE 5 HOURS), ClosedAuction C
WHERE O.itemID = C.itemID;
