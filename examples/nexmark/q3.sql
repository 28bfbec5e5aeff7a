-- Query 3: local item suggestion. Who is selling in Oregon, Idaho or California in category 10?
--
-- Published: auction JOIN person, both without a window: every auction ever opened with every
-- person ever seen. Here "is selling" is taken at its word: an auction holds while it is open, and
-- a person is remembered for a day.
INCLUDE 'streams.sql';

SELECT P.name, P.city, P.state, A.id
FROM open_auction AS A INNER JOIN person WINDOW(RANGE 1 DAY) AS P ON A.seller = P.id
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA');
