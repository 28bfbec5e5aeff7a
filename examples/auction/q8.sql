-- Q8, monitor new users: people who open an auction within 12 hours of registering.
INCLUDE 'streams.sql';

CREATE STREAM NewPersonStream AS SELECT P.id, P.name FROM Istream(Person) P;

SELECT DISTINCT P.id, P.name
FROM NewPersonStream P WINDOW(RANGE 12 HOURS), OpenAuction O
WHERE P.id = O.sellerID;
