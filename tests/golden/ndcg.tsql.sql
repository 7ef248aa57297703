-- SQL Server: parsed only; it was executed on no engine
-- metrics: ndcg@10, recall@100, mrr
-- conventions (house): gain=exp, discount=log2, ideal=labels_at_k,
--     recall_denominator=r, rr_of=first, ties=id_asc, score_precision=double,
--     min_score=none, depth=none, duplicate_rankings=error, identical_ids=keep,
--     duplicate_labels=error, unjudged=nonrelevant, negative_grades=error,
--     missing=zero, absent_systems=skip, no_relevant=skip, average=macro,
--     average_over=labels, rounding=none
with

-- one row per ranked item
ranking_rows as (
    select
        cast([ds] as date) as metric_date,
        cast([system] as nvarchar(4000)) collate Latin1_General_100_BIN2 as system,
        cast([query_id] as nvarchar(4000)) collate Latin1_General_100_BIN2 as query_id,
        cast([item_id] as nvarchar(4000)) collate Latin1_General_100_BIN2 as item_id,
        cast([score] as float) as score
    from [shop].[rankings]
),

-- one row per labelled item
label_rows as (
    select
        cast([query_id] as nvarchar(4000)) collate Latin1_General_100_BIN2 as query_id,
        cast([item_id] as nvarchar(4000)) collate Latin1_General_100_BIN2 as item_id,
        cast([grade] as float) as grade
    from [labels]
    where source <> 'bot'
),

-- rank 1 is the best of a list; an item without a label counts as grade 0
ranked as (
    select
        ranking_rows.metric_date,
        ranking_rows.system,
        ranking_rows.query_id,
        coalesce(label_rows.grade, 0e0) as grade,
        row_number() over (
            partition by
                ranking_rows.metric_date,
                ranking_rows.system,
                ranking_rows.query_id
            order by ranking_rows.score desc, ranking_rows.item_id asc
        ) as rnk
    from ranking_rows
    left join label_rows
        on label_rows.query_id = ranking_rows.query_id
        and label_rows.item_id = ranking_rows.item_id
),

-- the labels of a query, best first; equal gains may come in any order
ideal as (
    select
        query_id,
        grade,
        row_number() over (partition by query_id order by grade desc) as rnk
    from label_rows
),

-- one row per query with a label: sums over its ideal order
label_sums as (
    select
        query_id,
        sum(
            case
                when rnk <= 10
                then (power(2e0, grade) - 1e0) * log(2e0) / log(rnk + 1e0)
                else 0e0
            end
        ) as best_dcg_at_10,
        sum(case when grade >= 1 then 1e0 else 0e0 end) as num_rel
    from ideal
    group by query_id
),

-- one row per query with a ranking: sums over its list
list_sums as (
    select
        metric_date,
        system,
        query_id,
        1 as is_ranked,
        sum(
            case
                when rnk <= 10
                then (power(2e0, grade) - 1e0) * log(2e0) / log(rnk + 1e0)
                else 0e0
            end
        ) as dcg_at_10,
        sum(case when rnk <= 100 and grade >= 1 then 1e0 else 0e0 end)
            as num_rel_ret_at_100,
        max(case when grade >= 1 then 1e0 / rnk end) as first_reciprocal_rank
    from ranked
    group by metric_date, system, query_id
),

-- one row per query and day on which a system answered it
query_days as (
    select distinct
        metric_date,
        query_id
    from ranking_rows
),

-- one row per day and system with a row
systems as (
    select distinct
        metric_date,
        system
    from ranking_rows
),

-- one row per query and system that counts, with or without a ranking
query_systems as (
    select
        query_days.metric_date,
        systems.system,
        label_sums.query_id
    from label_sums
    inner join query_days
        on query_days.query_id = label_sums.query_id
    inner join systems
        on systems.metric_date = query_days.metric_date
),

-- one row per query and system: the metrics
per_query as (
    select
        query_systems.metric_date,
        query_systems.system,
        query_systems.query_id,
        coalesce(list_sums.is_ranked, 0) as is_ranked,
        coalesce(list_sums.dcg_at_10, 0e0) / nullif(label_sums.best_dcg_at_10, 0e0)
            as ndcg_at_10,
        coalesce(list_sums.num_rel_ret_at_100, 0e0) / nullif(label_sums.num_rel, 0e0)
            as recall_at_100,
        coalesce(list_sums.first_reciprocal_rank, 0e0) as mrr
    from query_systems
    left join label_sums
        on label_sums.query_id = query_systems.query_id
    left join list_sums
        on list_sums.metric_date = query_systems.metric_date
        and list_sums.system = query_systems.system
        and list_sums.query_id = query_systems.query_id
),

-- one row per query, system and metric, read from per_query once
metric_values as (
    select
        metric_date,
        system,
        1 - is_ranked as is_missing,
        case metric_number
            when 1 then 'ndcg'
            when 2 then 'recall'
            when 3 then 'mrr'
        end as metric,
        case metric_number when 1 then 10 when 2 then 100 when 3 then 0 end as k,
        case metric_number
            when 1 then ndcg_at_10
            when 2 then recall_at_100
            when 3 then mrr
        end as metric_value
    from per_query
    cross join (
        select 1 as metric_number
        union all
        select 2 as metric_number
        union all
        select 3 as metric_number
    ) as metric_numbers
),

-- one row per system, segment and metric: the sums behind its mean
totals as (
    select
        metric_date,
        system,
        'all' as segment_name,
        'all' as segment_value,
        metric,
        k,
        coalesce(sum(metric_value), 0e0) as numerator,
        cast(count_big(metric_value) as float) as denominator,
        count_big(metric_value) as n_queries,
        sum(case when metric_value is null then 1 else 0 end) as n_skipped,
        sum(is_missing) as n_missing,
        coalesce(sum(metric_value * metric_value), 0e0) as sum_sq
    from metric_values
    group by metric_date, system, metric, k
),

-- one row per system, segment and metric
-- all: every query, k = 0: no cutoff
summary as (
    select
        'shop.rankings' as spec,
        metric_date,
        system,
        segment_name,
        segment_value,
        metric,
        k,
        numerator / nullif(denominator, 0e0) as value,
        numerator,
        denominator,
        cast(n_queries as bigint) as n_queries,
        cast(n_skipped as bigint) as n_skipped,
        cast(n_missing as bigint) as n_missing,
        sum_sq
    from totals
)

select *
from summary
