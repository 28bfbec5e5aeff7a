"""Methods under the names of Spark mean what they mean there, snapshot by snapshot."""

from typing import Any

import pandas
import pytest

import anabranch as ab
from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.join import Join
from anabranch.errors import PlanError, QueryError

SEVEN = "2026-11-01 10:00:07"


def rows(stream: ab.Stream, at: str = SEVEN) -> list[Any]:
    found = (tuple(row.values()) for row in stream.snapshot(at).to_pylist())
    return sorted(found, key=repr)


def test_names_of_spark_are_other_names_for_the_same(bids: ab.Stream) -> None:
    held = bids.window("10 seconds")
    assert held.filter("price > 20").node == held.where("price > 20").node
    count = held.groupBy("item").agg(n="COUNT(*)").node
    assert count == held.groupby(["item"]).agg("COUNT(*) AS n").node
    assert held.selectExpr("price * 2 AS p").node == held.select(p="price * 2").node
    assert held.unionAll(held).node == held.union(held).node


def test_columns_are_added_renamed_and_dropped(bids: ab.Stream) -> None:
    made = bids.withColumn("double", bids["price"] * 2).withColumnRenamed("price", "p").drop("at")
    assert made.columns == ["item", "p", "double"]
    assert rows(made) == [(1, 95.0, 190.0)]
    assert rows(bids.drop("at").withColumn("price", "price + 1")) == [(1, 96.0)]
    assert bids.toDF("a", "b", "c").columns == ["a", "b", "c"]
    with pytest.raises(PlanError, match="2 names for 3 columns"):
        bids.toDF("a", "b")
    with pytest.raises(PlanError, match="no column would be left"):
        bids.drop("item", "price", "at")


def test_limit_takes_the_first_rows_of_every_snapshot(bids: ab.Stream) -> None:
    held = bids.window("10 seconds").drop("at")
    assert rows(held) == [(1, 80.0), (1, 95.0), (2, 15.0)]
    assert rows(held.limit(2)) == [(1, 80.0), (1, 95.0)]
    assert rows(held.dropDuplicates(["item"])) == [(1, 80.0), (2, 15.0)]


def test_nulls_are_filled_and_dropped(bids: ab.Stream) -> None:
    odd = bids.select("item", p="CASE WHEN price > 90 THEN NULL ELSE price END", t="NULL").drop("t")
    assert rows(odd) == [(1, None)]
    assert rows(odd.fillna(0)) == [(1, 0.0)]
    assert rows(odd.fillna({"p": 7})) == [(1, 7.0)]
    assert rows(odd.dropna()) == []
    assert rows(odd.dropna("all")) == [(1, None)]
    assert rows(odd.dropna(thresh=2)) == []


def test_aliases_and_columns_tell_the_sides_of_a_join_apart(bids: ab.Stream) -> None:
    held = bids.window("10 seconds").drop("at").withColumnRenamed("price", "cost")
    by_alias = bids.alias("a").join(held.alias("b"), "a.item = b.item AND a.price > b.cost")
    by_column = bids.join(held, (bids["item"] == held["item"]) & (bids["price"] > held["cost"]))
    assert rows(by_alias.drop("at")) == rows(by_column.drop("at")) == [(1, 95.0, 1, 80.0)]
    for each in (by_alias, by_column):
        assert isinstance(each.node, Join)
        assert len(JoinKeys.of(each.node).left) == 1
    assert bids.join(held, "item", "left_outer").node == bids.join(held, "item", how="left").node
    with pytest.raises(PlanError, match="both sides are the same stream"):
        bids.join(bids, bids["item"] == bids["item"])
    with pytest.raises(PlanError, match="not joined"):
        bids.join(held, bids["item"] == bids.window("1 s")["item"])
    with pytest.raises(PlanError, match="'b' has no column 'price'"):
        bids.alias("a").join(held.alias("b"), "a.price = b.price")
    with pytest.raises(PlanError, match="no join of kind 'sideways'"):
        bids.join(held, "item", "sideways")


def test_streams_are_combined_as_sets(bids: ab.Stream) -> None:
    one = bids.window("10 seconds").select("item")
    other = bids.where("price > 90").window("10 seconds").select("item")
    assert rows(one) == [(1,), (1,), (2,)]
    assert rows(one.exceptAll(other)) == [(1,), (2,)]
    assert rows(one.subtract(other)) == [(2,)]
    assert rows(one.intersect(other)) == rows(one.intersectAll(other)) == [(1,)]
    assert rows(bids.select("item").crossJoin(other.toDF("b"))) == [(1, 1)]
    swapped = bids.select("price", "item")
    assert rows(bids.select("item", "price").unionByName(swapped)) == [(1, 95.0)] * 2
    with pytest.raises(PlanError, match="only one of the streams has a column 'price'"):
        bids.select("item", "price").unionByName(one)
    both = bids.select("item", "price").unionByName(bids.select("item"), allowMissingColumns=True)
    assert rows(both) == [(1, 95.0), (1, None)]


def test_a_list_of_columns_and_a_function_do_what_they_say(bids: ab.Stream) -> None:
    assert bids.select(["item", "price"]).columns == ["item", "price"]
    assert bids[["item", "price"]].columns == ["item", "price"]
    assert bids.select("*", "price * 2 AS p").columns == ["item", "price", "at", "p"]
    assert bids[bids["price"] > 80].node == bids.where("(price > 80)").node
    assert bids.transform(lambda each: each.drop("at")).columns == ["item", "price"]
    with pytest.raises(PlanError, match="a lambda is not an expression"):
        bids.where(lambda row: row.price > 80)
    with pytest.raises(PlanError, match=r"3 is not an expression(.|\n)*ab.lit\(3\)"):
        bids.select(3)
    with pytest.raises(PlanError, match="takes no number of partitions"):
        bids.coalesce(1)
    assert bids.tumbling("10 s").count().columns == ["count"]
    assert repr(bids.tumbling("10 s", by="item")).startswith("<WindowedStream by item; ")


def test_columns_are_objects_with_the_operators_of_spark(bids: ab.Stream) -> None:
    price, item = bids["price"], bids.item
    assert rows(bids.where((price > 90) & ~(item == 2)).select(item, price)) == [(1, 95.0)]
    assert rows(bids.select((price / 2).alias("half"), c=-price % 7 + 1)) == [(47.5, -3.0)]
    assert rows(bids.select(x=100 - price, y=price.cast("int"), z=price.between(1, 95))) == [
        (5.0, 95, True)
    ]
    assert rows(bids.where(item.isin(1, 3) | price.isNull()).select(item)) == [(1,)]
    assert rows(bids.select(x=ab.col("price") + ab.lit(1.5), y=ab.expr("item + 1"))) == [(96.5, 2)]
    text = bids.select(n=ab.lit("it's")).select(ab.col("n").startswith("it").alias("s"), n="n")
    assert rows(text) == [(True, "it's")]
    held = bids.window("10 seconds").drop("at")
    assert rows(held.top(1, price.desc())) == [(1, 95.0)]
    with pytest.raises(PlanError, match="neither true nor false"):
        bids.where(price > 1 and item > 1)
    assert repr(price > 1) == "Column<'(price > 1)'>"


def test_aggregates_are_named_conditional_and_combined(bids: ab.Stream) -> None:
    grouped = bids.window("10 seconds").groupBy("item")
    assert grouped.agg("MAX(price)").columns == ["item", "MAX(price)"]
    assert grouped.agg({"price": "max", "*": "count"}).columns == ["item", "max(price)", "count(*)"]
    assert rows(grouped.count()) == [(1, 2), (2, 1)]
    assert rows(grouped.max("price")) == [(1, 95.0), (2, 15.0)]
    assert grouped.mean("price").columns == ["item", "avg(price)"]
    found = grouped.agg(
        spread="MAX(price) - MIN(price)",
        dear="COUNT(*) FILTER (WHERE price > 90)",
        cheap="COUNT_IF(price < 20)",
        both="COUNT(*) + item",
    )
    assert rows(found) == [(1, 15.0, 1, 0, 3), (2, 0.0, 0, 1, 3)]
    windows = bids.tumbling("10 seconds", by="item", columns=True)
    spread = windows.agg("COUNT(*)", spread="MAX(price) - MIN(price)")
    assert spread.columns == ["item", "window_start", "window_end", "COUNT(*)", "spread"]
    assert [row[3:] for row in rows(spread)] == [(2, 15.0), (1, 0.0)]
    keyed = bids.tumbling("10 seconds", by="item").agg(more="MAX(price) + item")
    assert rows(keyed) == [(1, 96.0), (2, 17.0)]
    with pytest.raises(QueryError, match="neither grouped by nor in an aggregate"):
        grouped.agg(n="MAX(price) + price")
    with pytest.raises(QueryError, match="'price' is not an aggregate"):
        grouped.agg(n="price")
    with pytest.raises(PlanError, match="needs an aggregate"):
        bids.agg()
    with pytest.raises(PlanError, match="two aggregates are called 'n'"):
        grouped.agg("MAX(price) AS n", n="COUNT(*)")


def test_single_aggregates_make_the_plan_that_they_always_made(bids: ab.Stream) -> None:
    held = bids.window("10 seconds")
    plain = held.group_by("item").agg(n="COUNT(*)", top="MAX(price)").node
    assert plain.label == "Aggregate count(*) AS n, max(price) AS top by item"
    assert plain.inputs == (held.node,)


def test_windows_have_bounds_as_columns(bids: ab.Stream) -> None:
    held = bids.window("10 seconds", slide="10 seconds", columns=True)
    assert held.columns[-2:] == ["window_start", "window_end"]
    assert bids.session_window("5 s", columns=("low", "high")).columns[-2:] == ["low", "high"]


def test_a_dictionary_of_aggregates_is_that_of_spark_in_windows_too(bids: ab.Stream) -> None:
    wanted = {"price": "max", "*": "count"}
    windows = bids.tumbling("1 minute", by="item", open_windows=True).agg(wanted)
    grouped = bids.window("1 minute").group_by("item").agg(wanted)
    assert windows.columns == grouped.columns == ["item", "max(price)", "count(*)"]
    assert windows.run_local().events().num_rows


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (pandas.DataFrame({"item": [1]}), "a DataFrame of pandas is not a stream"),
        ([{"item": 1}], "a list is not a stream"),
        ("Bid", "the text 'Bid' is not a stream"),
    ],
)
def test_what_is_not_a_stream_cannot_be_joined_and_says_what_to_do(
    bids: ab.Stream, other: Any, what: str
) -> None:
    with pytest.raises(ab.PlanError, match=what) as caught:
        bids.join(other, "item")
    assert "engine." in str(caught.value.hint)
    with pytest.raises(ab.PlanError, match=what):
        bids.asof_join(other, "item")
    with pytest.raises(ab.PlanError, match=what):
        bids.union(other)
    with pytest.raises(ab.PlanError, match=what):
        bids.intersection(other)
