from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_iceberg_compaction.submit import properties_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_java_reads_every_value_back_as_it_was(spark: SparkSession) -> None:
    conf = {
        "plain": "local[2]",
        "key with space:and=": "v",
        "leading": "  two spaces",
        "backslash": "a\\b\\",
        "signs": "#!=: all",
        "lines": "a\nb\tc\r",
        "unicode": "pässwörd \U0001f512 中",
        "empty": "",
    }
    jvm = spark._jvm
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.StringReader(properties_text(conf)))
    assert {key: properties.getProperty(key) for key in conf} == conf
    assert properties.size() == len(conf)
