"""A TREC run and its judgments, as trec_eval would print them.

Run it with `python examples/trec.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import sqlmetrics as sm

RUN = """\
301 Q0 doc-b 1 9.5 demo
301 Q0 doc-a 2 9.5 demo
301 Q0 doc-c 3 7.25 demo
302 Q0 doc-d 1 3.0 demo
"""
QRELS = """\
301 0 doc-a 2
301 0 doc-c 1
302 0 doc-d 0
302 0 doc-e 1
"""


def main() -> None:
    """Evaluate the run, and show that the rule for ties moves the numbers."""
    with TemporaryDirectory() as folder:
        run, qrels = Path(folder, "run.txt"), Path(folder, "qrels.txt")
        run.write_text(RUN)
        qrels.write_text(QRELS)
        metrics = ["map", "ndcg_cut_10", "recip_rank", "P_5"]
        print(sm.evaluate(run, qrels, metrics, preset="trec_eval"))
        print()
        print(sm.evaluate(run, qrels, metrics, preset="trec_eval", ties="id_asc"))


if __name__ == "__main__":
    main()
