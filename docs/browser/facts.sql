with lists as (
    select
        query_id,
        count(*) as n,
        count(distinct try_cast(score as double)) as n_scores,
        count(distinct try_cast(score as real)) as n_short_scores
    from rankings
    group by query_id
),

labelled as (
    select query_id, max(try_cast(grade as double)) as best from labels group by query_id
)

select
    (select count(*) from rankings) as n_rankings,
    (select count(*) from labels) as n_labels,
    (select count(*) from lists) as n_lists,
    (select count(*) from labelled) as n_labelled,
    (select count(*) from lists where n_scores < n) as ties,
    (select count(*) from lists where n_short_scores < n_scores) as short_ties,
    (select count(*) from labelled anti join lists using (query_id)) as missing,
    (select count(*) from lists anti join labelled using (query_id)) as unlabelled,
    (select count(*) from labelled where best < 1) as none_relevant,
    (select count(*) from labels where try_cast(grade as double) not in (0, 1)) as graded,
    (
        select count(*)
        from rankings
        semi join labelled using (query_id)
        anti join labels using (query_id, item_id)
    ) as unjudged
