"""Names that others use for columns, and for what stands in a hit of a search API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

ITEMS = "hitid docid docno documentid doc document passageid pid corpusid chunkid"
NAMES: Mapping[str, str] = {
    "query": "qid query queryid userid user uid topic topicid sessionid requestid",
    "item": f"{ITEMS} item iid productid product sku asin articleid movieid songid",
    "score": "hitscore similarity sim prediction pred predictedscore relevancescore logit",
    "rank": "rank position pos",
    "grade": "relevance rel label rating judgment judgement relevancelabel score",
    "system": "system model ranker variant abbucket bucket run runname runid runtag arm algorithm",
    "group": "group groupid subtopic subtopicid nugget nuggetid intent intentid aspect evidenceset",
}
"""Role -> names that others use, without case, blanks and marks."""

USUAL = {"query": "query_id", "item": "item_id", "score": "score", "grade": "grade"}

QUERY_TEXTS = ("text", "query_text", "query")
"""What the column of the texts is called in a table of queries."""

_OF_HITS = {"_id": "hitid", "_score": "hitscore"}
"""What Elasticsearch and OpenSearch call the id and the score of a hit."""


def plain(name: str) -> str:
    """A name without case, blanks and marks.

    >>> plain("Doc_ID")
    'docid'
    """
    return _OF_HITS.get(name) or re.sub(r"[^a-z0-9]", "", name.casefold())


def in_hit(role: str, names: Iterable[str]) -> str:
    """What stands for a role in a hit, like `_id` and `_score`; empty if nothing does."""
    field_by_name = {plain(name): name for name in names}
    candidates = [plain(USUAL.get(role, role)), *NAMES[role].split()]
    candidates = [*candidates, "id"] if role == "item" else candidates
    return next((field_by_name[name] for name in candidates if name in field_by_name), "")
