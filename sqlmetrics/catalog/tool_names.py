"""How tools write the names of metrics: a table a tool, read where its preset is asked for.

What a tool calls something else than we do, or what it computes and we do not, stands here. Other
texts are ours: the catalogue's names, and the notations that `measure.parse` reads everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmetrics.catalog.arithmetic import NAMED, rewritten
from sqlmetrics.errors import SpecError

CUT = r"(?:@(?P<k>\d{1,10}))?"
CALLED = re.compile(rf"(?P<name>\w[\w-]*?)(?:\((?P<settings>[^()]*)\))?{CUT}", re.IGNORECASE)
"""`NDCG`, `NDCG@10`, `SetF(beta=2)`."""

RANX = (
    re.compile(r"(?P<name>rbp)\.(?P<p>\d{1,15})(?:-l(?P<rel>\d{1,9}))?", re.IGNORECASE),
    re.compile(rf"(?P<name>[\w-]+?){CUT}(?:-l(?P<rel>\d{{1,9}}))?", re.IGNORECASE),
)
"""`rbp.95`, `ndcg_burges@10`, `map@10-l2`."""

TREC = (
    re.compile(r"(?P<name>iprec_at_recall)[_.](?P<levels>[\d.]+(?:,[\d.]+)*)", re.IGNORECASE),
    re.compile(
        r"(?P<name>\w+?)(?:\((?P<settings>[^()]*)\))?(?:[_.](?P<cutoffs>\d+(?:,\d+)*))?",
        re.IGNORECASE,
    ),
)
"""`P_5`, `P.5,10`, `P(rel=2)_5`, `iprec_at_recall_.10`."""

AT_K = (
    re.compile(r"(?P<name>[a-z]\w*?_at_)(?P<k>\d{1,10})", re.IGNORECASE),
    CALLED,
)
"""`ndcg_at_10`, a function with its k, or `ndcg_at_k@10`."""

CATBOOST = re.compile(r"(?P<name>\w+?(?::type=exp)?)(?:[:;]top=(?P<k>\d{1,10}))?", re.IGNORECASE)
"""`NDCG:type=Exp;top=10`."""

DOTTED = ("p", "recall", "success", "ndcg_cut", "map_cut", "relative_p")
"""Names that everywhere may have their cutoff behind a dot, as trec_eval writes it."""

NO_SETTINGS = ("judged_only=false", "relative=false", "min_rel=0", "normalize=true")
"""Settings of ir_measures that say what holds anyway."""

DEFAULT_CUTOFFS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")


@dataclass(frozen=True)
class ToolNames:
    """How a tool writes the names of metrics.

    Attributes:
        tool: What people call it.
        presets: Those under which its names are read.
        names: What it calls a metric, in lower case -> what that is here. One that ends in `@k`
            is the name with a cutoff, where that means something else than without.
        forms: How it puts name, cutoff, settings and levels together.
        cutoffs: A name that stands for several cutoffs -> these.
        missing: What it calls a metric that is not here, or a setting -> what the tool has
            there, and what is nearest. One that ends in `@k` is the name with a cutoff, in `-l`
            with a level of relevance, in `(beta)` with that setting.
    """

    tool: str
    presets: tuple[str, ...]
    names: Mapping[str, str]
    forms: tuple[re.Pattern[str], ...] = (CALLED,)
    cutoffs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def read(self, text: str) -> list[str]:
        """What a text of the tool is here; nothing if the table does not have it.

        Raises:
            SpecError: If it is a name of the tool for what is not here.
        """
        for form in self.forms:
            match = form.fullmatch(text.strip())
            if match is None:
                continue
            parts = {name: part for name, part in match.groupdict().items() if part is not None}
            name, parts = self._by_setting(parts)
            cutoffs = self._cutoffs(parts)
            self._refuse(text, name, parts)
            names_at_cutoff = [self.names.get(f"{name}@k") if k else None for k in cutoffs]
            our_names = [
                name_at_cutoff or self.names.get(name, "") for name_at_cutoff in names_at_cutoff
            ]
            if all(our_names):
                return [
                    _ours(our_name, parts, k)
                    for our_name, k in zip(our_names, cutoffs, strict=True)
                ]
        return []

    def _by_setting(self, parts: dict[str, str]) -> tuple[str, dict[str, str]]:
        """The name, with the setting that makes it another metric, and the parts without that."""
        name, settings = parts["name"].casefold(), _written_settings(parts)
        for index, setting in enumerate(settings):
            if (key := f"{name}({_plain(setting)})") in self.names:
                other_settings = [*settings[:index], *settings[index + 1 :]]
                return key, {**parts, "settings": ",".join(other_settings)}
        return name, parts

    def _cutoffs(self, parts: Mapping[str, str]) -> Sequence[str]:
        """The cutoffs, or levels of recall, that a text names; one empty text if it has none."""
        if several := parts.get("levels") or parts.get("cutoffs"):
            return several.split(",")
        return [parts["k"]] if "k" in parts else self.cutoffs.get(parts["name"].casefold(), [""])

    def _refuse(self, text: str, name: str, parts: Mapping[str, str]) -> None:
        """Raise SpecError if it is a name for what is not here."""
        is_cut = "k" in parts or "cutoffs" in parts
        graded = f"{name}-l" if int(parts.get("rel", 1)) != 1 else ""
        settings = [_plain(setting) for setting in _settings(parts)]
        setting_names = [f"{name}({setting.partition('=')[0]})" for setting in settings]
        for key in (*settings, *setting_names, graded, *[f"{name}@k"] * is_cut, name):
            if (reason := self.missing.get(key)) == "":
                return  # the setting says that ours is meant
            if reason:
                raise SpecError(f"metric {text!r}: {self.tool} {reason}")


def _ours(name: str, parts: Mapping[str, str], cutoff: str) -> str:
    """Our text of a metric: its name, the settings of both, and the cutoff, or a level."""
    if "{" in name:
        return name.format(cutoff)
    name, _, own_cutoff = name.partition("@")
    cutoff = cutoff or own_cutoff
    name, _, own_settings = name.partition("(")
    given_settings = [*filter(None, _settings(parts))]
    given_names = {setting.partition("=")[0].strip().casefold() for setting in given_settings}
    own_pairs = own_settings.removesuffix(")").split(", ") if own_settings else []
    joined_settings = ", ".join(
        [*(s for s in own_pairs if s.partition("=")[0] not in given_names), *given_settings]
    )
    return name + f"({joined_settings})" * bool(joined_settings) + f"@{cutoff}" * bool(cutoff)


def _plain(setting: str) -> str:
    """A setting without spaces and capitals: `relative=true`."""
    return setting.replace(" ", "").casefold()


def _written_settings(parts: Mapping[str, str]) -> list[str]:
    """The settings between the parentheses of a text."""
    return re.split(r",(?![^{]*\})", parts.get("settings", ""))


def _settings(parts: Mapping[str, str]) -> Iterator[str]:
    """The settings in a text, in our notation."""
    for setting in _written_settings(parts):
        if _plain(setting) not in NO_SETTINGS:
            yield setting.strip()
    if "p" in parts:
        yield f"p=0.{parts['p']}"
    if "rel" in parts:
        yield f"rel={parts['rel']}"


def _none(description: str, *nearest: str) -> str:
    """What a tool has that is not here, and what is nearest."""
    return f"has {description} by this name, which is no metric here; nearest: {', '.join(nearest)}"


_PREFERENCES = (
    *("simp", "simp_imp", "simp_ret", "pair", "pair_imp", "pair_ret"),
    *("avgjg", "avgjg_imp", "avgjg_ret", "avgjg_rnonrel", "avgjg_rnonrel_ret"),
    *("num_prefs_ful", "num_prefs_ful_ret", "num_prefs_poss"),
)
"""What trec_eval calls its measures of preferences, behind `prefs_`."""

_NO_CUTOFF = "passes over the cutoff of this metric; leave it out"
_GRADES_LEFT_OUT = (
    "takes lower grades out of the gains too; give labels whose lower grades are 0, and the "
    "metric without -l"
)
_INSIDE = {  # the same here and in most tools of recommendation, but for upper and lower case
    **{name: name for name in ("ndcg", "recall", "precision", "mrr")},
    "map": "ap",
    "hitrate": "hit",
}
_FUNCTIONS = {"ndcg_at_": "ndcg", "precision_at_": "precision", "recall_at_": "recall"}


def _at_k(names: Mapping[str, str]) -> dict[str, str]:
    """Functions that end in `_at_`, with a number there, or with k and a cutoff."""
    return {key: our_name for name, our_name in names.items() for key in (name, f"{name}k")}


TOOLS = (
    ToolNames(
        "ranx",
        ("ranx",),
        {
            "hits": "dcg(gain=binary, discount=none)",
            "hit_rate": "set_hit",
            "hit_rate@k": "hit",
            "precision": "set_precision",
            "precision@k": "precision",
            "recall": "set_recall",
            "recall@k": "recall",
            "f1": "set_f",
            "f1@k": "f1",
            "r-precision": "rprec",
            "mrr": "mrr",
            "map": "ap",
            "dcg": "dcg",
            "dcg_burges": "dcg(gain=exp)",
            "ndcg": "ndcg",
            "ndcg_burges": "ndcg(gain=exp)",
            "bpref": "bpref",
            "rbp": "rbp(rbp_of=grade)",
        },
        RANX,
        missing={
            "r-precision@k": _NO_CUTOFF,
            "bpref@k": _NO_CUTOFF,
            "rbp@k": "takes the number for the persistence, not for a cutoff; write rbp.95 for "
            "p = 0.95, or rbp(p=0.95)@10 for a cutoff",
            **dict.fromkeys(("dcg-l", "dcg_burges-l", "ndcg-l", "ndcg_burges-l"), _GRADES_LEFT_OUT),
        },
    ),
    ToolNames(
        "trec_eval",
        ("trec_eval", "trec_eval_9"),
        {
            "p@k": "precision",
            "recall@k": "recall",
            "success@k": "hit",
            "ndcg_cut@k": "ndcg",
            "map_cut@k": "ap",
            "ndcg": "ndcg",
            "map": "ap",
            "recip_rank": "mrr",
            "rprec": "rprec",
            "bpref": "bpref",
            "infap": "infap",
            "set_p": "set_precision",
            "set_recall": "set_recall",
            "set_f": "set_f",
            **{name: name for name in ("num_q", "num_ret", "num_rel", "num_rel_ret")},
            "relative_p@k": "precision(precision_denominator=min_k_r)",
            "iprec_at_recall@k": "iprec(recall={})",
        },
        TREC,
        cutoffs={
            **dict.fromkeys(("p", "recall", "ndcg_cut", "map_cut", "relative_p"), DEFAULT_CUTOFFS),
            "success": ("1", "5", "10"),
            "iprec_at_recall": [f"{level / 10:.1f}" for level in range(11)],
        },
        missing={
            "set_f@k": "takes beta squared behind this name; write set_f(beta=2) for set_F_4",
            "rprec_mult": _none("precision at multiples of R", "rprec"),
            "utility": _none("a sum of relevant and other items", "num_rel_ret"),
            **dict.fromkeys(("g", "bing"), _none("a gain over ideal ranks", "ndcg")),
            **dict.fromkeys(("ndcg_rel", "rndcg"), _none("NDCG over relevant ranks", "ndcg")),
            "num_nonrel_judged_ret": _none("a count of labelled items", "judged", "num_rel_ret"),
            "relstring": _none("a text of grades", "num_rel_ret"),
            "runid": _none("the system", "num_q"),
            "yaap": _none("yet another average precision", "ap"),
            "rbp(p)": "",
            "rbp": "divides grades by the highest one; write rbp(p=0.9), which is binary",
            "rbp_resid": _none("the residual of RBP", "judged"),
            "ideal_dcg": _none("the DCG of the best list", "idcg"),
            **dict.fromkeys(
                ("map_avgjg", "p_avgjg", "rprec_mult_avgjg"),
                _none("a mean over judges", "ap", "precision@10"),
            ),
            **dict.fromkeys(
                [f"prefs_{name}" for name in _PREFERENCES],
                _none("preferences of groups of judges", "pnr"),
            ),
            **dict.fromkeys(
                ("official", "all_trec", "set", "all_prefs", "prefs", "qrels_jg"),
                "has several by this name, some of them not here; name those that you need",
            ),
        },
    ),
    ToolNames(
        "ir_measures",
        ("ir_measures", "msmarco"),
        {
            "p@k": "precision",
            "precision@k": "precision",
            "r@k": "recall",
            "recall@k": "recall",
            "success@k": "hit",
            "ap": "ap",
            "map": "ap",
            "ndcg": "ndcg",
            "rr": "mrr",
            "mrr": "mrr",
            "rprec": "rprec",
            "bpref": "bpref",
            "judged": "judged",
            "setp": "set_precision",
            "setp(relative=true)": "set_relative_precision",
            "setr": "set_recall",
            "setf": "set_f",
            "err": "err(max_grade=4)",
            "rbp": "rbp",
            "infap": "infap",
            "compat": "compat",
            "accuracy": "list_auc",
            "bpm": "bpm",
            "sdcg": "sdcg",
            "inst": "inst@1000",
            "insq": "insq@1000",
        },
        missing={
            "judged_only=true": "leaves out what is not judged; here that holds for all metrics: "
            "give unjudged=condensed",
            "setf(beta)": "takes beta squared by this name; write set_f(beta=2) for SetF(beta=4)",
            "normalize=false": "divides by the weights of all depths then; write compat(p=0.95), "
            "which is divided by what the ideal order has",
            **dict.fromkeys(
                ("nerr8", "nerr9", "nerr10", "nerr11"), _none("a normalized ERR", "err", "nerr_ia")
            ),
            "nnrbp": _none("a normalized NRBP", "nrbp", "nerr_ia"),
            **dict.fromkeys(
                ("sdcg(min_rel)", "bpm(min_rel)", "inst(min_rel)", "insq(min_rel)"),
                "scales grades from min_rel to max_rel; here they count from 0: subtract min_rel "
                "from the grades and from max_rel",
            ),
        },
    ),
    ToolNames(
        "RecBole",
        ("recbole",),
        {
            **{name: name for name in ("recall", "mrr", "ndcg", "hit", "precision")},
            "map": "ap",
            "gauc": "gauc(gauc_weight=positives)",
            "auc": "auc",
            "itemcoverage": "coverage",
            "giniindex": "gini",
        },
        missing={
            "averagepopularity": _none(
                "the mean count of an item's interactions", "arp", "novelty"
            ),
            "shannonentropy": _none("the entropy of what is shown", "gini", "coverage"),
            "tailpercentage": _none("the share of rare items", "novelty", "arp"),
            **dict.fromkeys(("rmse", "mae", "logloss"), _none("a loss of scores", "auc", "gauc")),
        },
    ),
    ToolNames(
        "recommenders",
        ("recommenders",),
        _at_k({**_FUNCTIONS, "map_at_": "ap"}) | {"map": "ap(ap_denominator=r)"},
        AT_K,
    ),
    ToolNames(
        "scikit-learn",
        ("sklearn",),
        {"ndcg_score": "ndcg", "dcg_score": "dcg"},
    ),
    ToolNames(
        "torchmetrics",
        ("torchmetrics",),
        {
            "retrievalnormalizeddcg": "ndcg",
            "retrievalmap": "ap",
            "retrievalmrr": "mrr",
            "retrievalrecall": "recall",
            "retrievalprecision": "precision",
            "retrievalhitrate": "hit",
            "retrievalrprecision": "rprec",
        },
    ),
    ToolNames(
        "Spark MLlib",
        ("spark_mllib",),
        {
            "ndcgat": "ndcg",
            "recallat": "recall",
            "precisionat": "precision",
            "meanaverageprecisionat": "ap",
            "meanaverageprecision": "ap",
        },
    ),
    ToolNames("RePlay", ("replay",), _INSIDE),
    ToolNames("RecTools", ("rectools", "rectools_achievable"), _INSIDE | {"f1beta": "f1"}),
    ToolNames(
        "LensKit",
        ("lenskit",),
        {**_INSIDE, "averageprecision": "ap", "reciprank": "mrr", "hit": "hit", "dcg": "dcg"},
    ),
    ToolNames(
        "evidently",
        ("evidently",),
        {**_INSIDE, "recalltopk": "recall", "precisiontopk": "precision"},
    ),
    ToolNames(
        "XGBoost",
        ("xgboost",),
        {"ndcg": "ndcg", "map": "ap", "pre": "precision"},
    ),
    ToolNames(
        "XGBoost",
        ("xgboost_minus",),
        {"ndcg": "ndcg", "map": "ap", "pre": "precision"},
        (re.compile(rf"(?P<name>\w+?){CUT}-", re.IGNORECASE),),
    ),
    ToolNames(
        "CatBoost",
        ("catboost",),
        {
            "ndcg": "ndcg",
            "dcg": "dcg",
            "map": "ap",
            "mrr": "mrr",
            "precisionat": "precision",
            "recallat": "recall",
            "err": "err(stop=linear, max_grade=1)",
            "pfound": "pfound(stop=linear, max_grade=1)",
            "ndcg:type=exp": "ndcg(gain=exp)",
            "dcg:type=exp": "dcg(gain=exp)",
        },
        (CATBOOST, CALLED),
    ),
    ToolNames(
        "LlamaIndex", ("llamaindex", "llamaindex_old"), {**_INSIDE, "averageprecision": "ap"}
    ),
    ToolNames(
        "Haystack",
        ("haystack",),
        {
            "documentndcgevaluator": "ndcg",
            "documentmapevaluator": "ap",
            "documentmrrevaluator": "mrr",
            "documentrecallevaluator": "recall",
        },
    ),
    ToolNames("MLflow", ("mlflow",), _at_k(_FUNCTIONS), AT_K),
    ToolNames("TruLens", ("trulens",), _at_k(_FUNCTIONS) | {"mrr": "mrr"}, AT_K),
    ToolNames("Phoenix", ("phoenix",), {"reciprocal_rank": "mrr"}),
    ToolNames(
        "Ragas",
        ("ragas",),
        {
            "llmcontextprecisionwithreference": "ap",
            "idbasedcontextprecision": "precision",
            "idbasedcontextrecall": "recall",
        },
    ),
    ToolNames("DeepEval", ("deepeval",), {"contextualprecisionmetric": "ap"}),
    ToolNames("Sentence Transformers", ("sentence_transformers",), {**_INSIDE, "accuracy": "hit"}),
    ToolNames("pyvespa", ("pyvespa",), {**_INSIDE, "accuracy": "hit"}),
    ToolNames("BEIR", ("beir",), {**_INSIDE, "p": "precision"}),
    ToolNames("BEIR", ("beir_custom",), {"mrr": "mrr", "accuracy": "hit", "r_cap": "recall"}),
    ToolNames(
        "MTEB",
        ("mteb", "mteb_old"),
        {
            **_at_k({**_FUNCTIONS, "map_at_": "ap", "mrr_at_": "mrr", "hit_rate_at_": "hit"}),
            "p-mrr": "p_mrr",
        },
        AT_K,
    ),
    ToolNames("DaisyRec", ("daisyrec",), {**_INSIDE, "hr": "hit"}),
    ToolNames("PyTorch Ignite", ("ignite",), {"ndcg": "ndcg", "hitrate": "hit"}),
    ToolNames("MIND", ("mind",), {"mrr_score": "mrr", "ndcg_score": "ndcg"}),
)
"""The tools whose names are read; the names are those of the versions on the presets' pages."""

_BY_PRESET = {preset: tool for tool in TOOLS for preset in tool.presets}


def in_our_words(text: str, preset: str) -> list[str]:
    """The metrics that a text means under a preset, in our notation; itself if it is ours.

    >>> in_our_words("r-precision", "ranx"), in_our_words("ndcg@10", "house")
    (['rprec'], ['ndcg@10'])
    >>> in_our_words("map@10-l2", "ranx"), in_our_words("P.5,10", "trec_eval")
    (['ap(rel=2)@10'], ['precision@5', 'precision@10'])

    Raises:
        SpecError: If the tool calls a metric so that is not here.
    """
    tool = _BY_PRESET.get(preset)
    if tool and (named := NAMED.fullmatch(text)):

        def ours(metric: str) -> str:
            first, *rest = tool.read(metric) or [metric]
            if rest:
                raise SpecError(f"metric {text!r}: {metric} is several metrics; name one of them")
            return first

        return [f"{named['name']} = {rewritten(text, named['formula'], ours)}"]
    return (tool.read(text) if tool else []) or [text]


def all_in_our_words(
    texts: Iterable[str], preset: str, ours: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """The same of several, and what is wrong with those that are refused.

    Args:
        texts: The metrics.
        preset: The preset.
        ours: Those that the tool has not, which are left as they are.
    """
    our_metrics: list[str] = []
    problems: list[str] = []
    for text in texts:
        try:
            our_metrics += [text] if text in ours else in_our_words(text, preset)
        except SpecError as error:
            problems += error.problems
    return our_metrics, problems


def called_by_tools() -> Mapping[str, str]:
    """What tools call a metric without a cutoff, in lower case -> what that is here."""
    names: dict[str, str] = {}
    for tool in TOOLS:
        for name, ours in tool.names.items():
            if not name.endswith("@k") and "{" not in ours:
                names.setdefault(name, ours)
    return names


def whose(text: str) -> str:
    """Which tool calls a metric so, and what to write; empty if none does.

    >>> whose("hits@5")
    'ranx has dcg(gain=binary, discount=none)@5 by this name: write that, or give preset=ranx'
    """
    meanings: dict[str, list[ToolNames]] = {}
    refusals: list[str] = []
    for tool in TOOLS:
        try:
            if our_metrics := tool.read(text):
                meanings.setdefault(", ".join(our_metrics), []).append(tool)
        except SpecError as error:
            refusals += [problem.removeprefix(f"metric {text!r}: ") for problem in error.problems]
    sentences = []
    for meaning, tools in meanings.items():
        *other_tools, last = dict.fromkeys(tool.tool for tool in tools)
        names = f"{', '.join(other_tools)} and {last} have" if other_tools else f"{last} has"
        presets = " or ".join(tool.presets[0] for tool in tools)
        sentences.append(f"{names} {meaning} by this name: write that, or give preset={presets}")
    return "; ".join(sentences or refusals[:1])
