-- The session file, format 7. docs/session.md says what each column means.
create table events (
    seq     integer primary key,
    at_us   integer not null,
    kind    text    not null,
    variant integer not null,
    tensor  integer not null,
    payload blob    not null,
    crc     integer not null
);
create index events_log on events (seq) where kind <> 'tap';

create table session (
    key   text primary key,
    value text not null
) without rowid;

create table tensors (
    id         integer primary key,
    name       text    not null,
    source     text    not null,
    file       text    not null,
    dtype      text    not null,
    rows       integer not null,
    cols       integer not null,
    kind       text    not null,
    layer      integer,
    expert     integer,
    projection text    not null,
    param      text    not null,
    mtp        integer not null
);

create table variants (
    id              integer primary key,
    seq             integer not null,
    name            text    not null unique,
    effective       text    not null,
    scheme          text    not null,
    bits_per_weight real    not null
);

create table taps (
    variant           integer not null,
    tensor            integer not null,
    seq               integer not null,
    failed            integer not null,
    cos               real,
    rel2              real,
    rel_l2            real,
    sqnr_db           real,
    max_abs_err       real,
    amax              real,
    global_scale      real,
    scale_min         real,
    scale_mean        real,
    scale_max         real,
    w2                real,
    e2                real,
    std               real,
    kurtosis          real,
    elements          integer,
    blocks            integer,
    zero_blocks       integer,
    non_finite        integer,
    scale_high        integer,
    scale_low         integer,
    scale_subnormal   integer,
    shallow           integer,
    deep              integer,
    subnormal_clipped integer,
    shallow_l2        real,
    deep_l2           real,
    depth             blob,
    sign_bias         real,
    row_bias_rms      real,
    row_bias_max      real,
    codebook          text,
    l2_rel2           real,
    sym_rel2          real,
    primary key (variant, tensor)
) without rowid;

create table findings (
    seq     integer primary key,
    variant integer,
    tensor  integer,
    code    text not null,
    value   real,
    bound   real,
    message text not null
);

create table log (
    seq     integer primary key,
    at_us   integer not null,
    kind    text    not null,
    variant integer,
    tensor  integer,
    message text    not null
);

create table yards (
    id          integer primary key,
    seq         integer not null,
    state       text    not null,
    reason      text,
    reference   text    not null,
    identity    text    not null,
    activations text    not null,
    scored      text    not null,
    kernel_set  text    not null,
    program     text    not null,
    positions   integer not null
);

create table candidates (
    yard            integer not null,
    id              integer not null,
    label           text    not null,
    spec            text    not null,
    kind            text    not null,
    path            text    not null,
    identity        text    not null,
    effective       text    not null,
    bits_per_weight real,
    bytes           integer not null,
    floor           integer not null,
    baseline        integer,
    of              integer,
    derived         text    not null,
    primary key (yard, id)
) without rowid;

create table corpora (
    yard   integer not null,
    id     integer not null,
    name   text    not null,
    source text    not null,
    sha256 text    not null,
    chunks integer not null,
    tokens integer not null,
    bos    text    not null,
    primary key (yard, id)
) without rowid;

create table scores (
    yard       integer not null,
    candidate  integer not null,
    corpus     integer not null,
    chunk      integer not null,
    seq        integer not null,
    positions  integer not null,
    finite     integer not null,
    nan        integer not null,
    infinite   integer not null,
    kl         real,
    kl_max     real,
    kl_reverse real,
    nll        real,
    ref_nll    real,
    top1       real,
    primary key (yard, candidate, corpus, chunk)
) without rowid;

create table calibrations (
    id         integer primary key,
    seq        integer not null,
    variant    integer not null,
    state      text    not null,
    reason     text,
    corpus     text    not null,
    sha256     text    not null,
    chunks     integer not null,
    tokens     integer not null,
    needed     integer not null,
    damp       real,
    only       text    not null,
    inputs     text    not null,
    codes      text    not null,
    units      integer not null,
    kernel_set text    not null,
    program    text    not null,
    params     integer not null,
    calibrated integer,
    changed    integer,
    fell_back  integer,
    gate       text
);

create table units (
    calibration integer not null,
    id          integer not null,
    unit        text    not null,
    seq         integer not null,
    again       integer not null,
    matrices    integer not null,
    seconds     real,
    primary key (calibration, id)
) without rowid;

create table calibrated (
    calibration integer not null,
    tensor      integer not null,
    variant     integer not null,
    seq         integer not null,
    unit        text    not null,
    effective   text    not null,
    why         text,
    chosen      integer not null,
    input       text    not null,
    tokens      integer not null,
    n           integer not null,
    rank        integer,
    cond        real,
    damp_share  real,
    dead        integer not null,
    codes       integer not null,
    changed     integer not null,
    rel2        real,
    base_rel2   real,
    out2        real,
    base_out2   real,
    out_rows    integer,
    primary key (calibration, tensor)
) without rowid;

create table tokens (
    calibration integer not null,
    layer       integer not null,
    mtp         integer not null,
    expert      integer not null,
    count       integer not null,
    of          integer not null,
    top_k       integer not null,
    primary key (calibration, layer, mtp, expert)
) without rowid;

create table recipes (
    variant integer primary key,
    seq     integer not null,
    name    text    not null,
    sha256  text    not null,
    text    text    not null,
    groups  integer not null,
    kept    integer not null
);

create table recipe_groups (
    variant         integer not null,
    id              integer not null,
    name            text    not null,
    scheme          text    not null,
    convention      text    not null,
    bits_per_weight real    not null,
    tensors         integer not null,
    primary key (variant, id)
) without rowid;

create table assigned (
    variant  integer not null,
    tensor   integer not null,
    group_id integer,
    primary key (variant, tensor)
) without rowid;

create table gate_runs (
    id         integer primary key,
    seq        integer not null,
    state      text    not null,
    reason     text,
    suite      text    not null,
    path       text    not null,
    sha256     text    not null,
    probes     integer not null,
    arms       integer not null,
    answers    integer not null,
    texts      text,
    settings   text    not null,
    kernel_set text    not null,
    program    text    not null
);

create table arms (
    run         integer not null,
    id          integer not null,
    label       text    not null,
    spec        text    not null,
    role        text    not null,
    kind        text,
    at          text,
    model       text,
    engine      text,
    version     text,
    effective   text,
    content     text,
    fingerprint text,
    speculative integer,
    max_tokens  integer,
    primary key (run, id)
) without rowid;

create table probes (
    run     integer not null,
    id      integer not null,
    name    text    not null,
    family  text    not null,
    about   text    not null,
    grader  text    not null,
    cases   integer not null,
    passes  integer not null,
    need    real    not null,
    timed   integer not null,
    primary key (run, id)
) without rowid;

create table cases (
    run    integer not null,
    probe  integer not null,
    id     integer not null,
    name   text    not null,
    tokens integer,
    depth  real,
    primary key (run, probe, id)
) without rowid;

create table answers (
    seq               integer primary key,
    run               integer not null,
    arm               integer not null,
    probe             integer not null,
    case_id           integer not null,
    pass              integer not null,
    replaced          integer not null,
    passed            integer not null,
    fault             text,
    reason            text    not null,
    error             text,
    turns             integer not null,
    finish            text,
    prompt_tokens     integer,
    completion_tokens integer,
    cached_tokens     integer,
    replacement       integer not null,
    invalid           integer not null,
    retries           integer not null,
    first_seconds     real,
    seconds           real    not null,
    text              text
);

create index answers_key on answers (run, arm, probe, case_id, pass);

create table meters (
    run              integer not null,
    arm              integer not null,
    seq              integer not null,
    seconds          real    not null,
    tokens           integer not null,
    tokens_per_s     real,
    generated        integer,
    steps            integer,
    drafts           integer,
    drafted          integer,
    accepted         integer,
    acceptance       real,
    accepted_length  real,
    cache_queries    integer,
    cache_hits       integer,
    positions        integer,
    nll              real,
    ppl              real,
    median_rank      real,
    kl_lower_bound   real,
    top1             real,
    primary key (run, arm)
) without rowid;

create table checks (
    run     integer not null,
    arm     integer not null,
    id      integer not null,
    name    text    not null,
    state   text    not null,
    message text    not null,
    primary key (run, arm, id)
) without rowid;

create table bias_runs (
    id          integer primary key,
    seq         integer not null,
    state       text    not null,
    reason      text,
    reference   text    not null,
    identity    text    not null,
    activations text    not null,
    layers      integer not null,
    hidden      integer not null,
    positions   integer not null,
    corpora     text    not null,
    kernel_set  text    not null,
    program     text    not null
);

create table bias_candidates (
    run             integer not null,
    id              integer not null,
    label           text    not null,
    spec            text    not null,
    kind            text    not null,
    identity        text    not null,
    effective       text    not null,
    bits_per_weight real,
    primary key (run, id)
) without rowid;

create table bias_weights (
    run           integer not null,
    candidate     integer not null,
    layer         integer not null,
    seq           integer not null,
    tensors       integer not null,
    rel_l2        real,
    bias          real,
    abs_bias      real,
    abs_bias_null real,
    row_rms       real,
    row_rms_null  real,
    row_max       real,
    positive      real,
    codebooks     text,
    primary key (run, candidate, layer)
) without rowid;

create table bias_tensors (
    run       integer not null,
    candidate integer not null,
    id        integer not null,
    name      text    not null,
    layer     integer,
    expert    integer,
    rel_l2    real,
    bias      real,
    row_rms   real,
    row_max   real,
    primary key (run, candidate, id)
) without rowid;

create table bias_rows (
    run            integer not null,
    candidate      integer not null,
    layer          integer not null,
    part           text    not null,
    seq            integer not null,
    positions      integer not null,
    nonfinite      integer not null,
    rel_l2         real,
    bias           real,
    gain           real,
    ref            real,
    shift          real,
    shift_null     real,
    shift_null_max real,
    primary key (run, candidate, layer, part)
) without rowid;

create table bias_kl (
    run       integer not null,
    candidate integer not null,
    seq       integer not null,
    positions integer not null,
    kl        real,
    kl_stderr real,
    top1      real,
    primary key (run, candidate)
) without rowid;

create table tier_runs (
    id              integer primary key,
    seq             integer not null,
    state           text    not null,
    reason          text,
    model           text    not null,
    identity        text    not null,
    hot             text    not null,
    cold            text    not null,
    routed          text,
    workload        text    not null,
    workload_kind   text    not null,
    workload_sha256 text    not null,
    tokens          integer not null,
    layers          integer not null,
    experts         integer not null,
    top_k           integer not null,
    window          integer not null,
    decay           real,
    hysteresis      real,
    stay            integer not null,
    moves           integer not null,
    per_layer       integer not null,
    trace           integer not null,
    seed            text    not null,
    knee            real,
    rise            real,
    noise           real,
    verdict         text,
    kernel_set      text    not null,
    program         text    not null
);

create table tier_budgets (
    run              integer not null,
    id               integer not null,
    label            text    not null,
    bytes            integer not null,
    share            real,
    windows          integer,
    coverage         real,
    hits             real,
    hits_settled     real,
    hits_hindsight   real,
    promoted         integer,
    evicted          integer,
    churn            integer,
    churn_per_window real,
    held             integer,
    hot_bytes        integer,
    replace_bytes    integer,
    beside_bytes     integer,
    hits_random      real,
    hits_coldest     real,
    primary key (run, id)
) without rowid;

create table tier_windows (
    run       integer not null,
    budget    integer not null,
    id        integer not null,
    seq       integer not null,
    first     integer not null,
    tokens    integer not null,
    pairs     integer not null,
    hits      integer not null,
    promoted  integer not null,
    evicted   integer not null,
    churn     integer not null,
    hot       integer not null,
    hot_bytes integer not null,
    held      integer not null,
    primary key (run, budget, id)
) without rowid;

create table tier_moves (
    run    integer not null,
    budget integer not null,
    window integer not null,
    id     integer not null,
    layer  integer not null,
    expert integer not null,
    up     integer not null,
    score  real,
    primary key (run, budget, window, id)
) without rowid;

create view v_taps as
    select v.name as variant_name, t.name as tensor_name, t.kind, t.layer, t.expert, t.projection, t.mtp,
           t.rows, t.cols, t.dtype, p.*
    from taps p join variants v on v.id = p.variant join tensors t on t.id = p.tensor;

create view v_variants as
    select v.id, v.name, v.effective, v.bits_per_weight,
           sum(p.failed = 0) as measured, sum(p.failed) as failed,
           avg(p.rel2) as mean_rel2, avg(p.rel_l2) as mean_rel_l2, max(p.rel_l2) as worst_rel_l2,
           max(p.rel_l2) / avg(p.rel_l2) as worst_over_mean, min(p.cos) as cos_min, max(p.cos) as cos_max,
           sum(p.shallow) * 1.0 / sum(p.blocks) as shallow_blocks, sum(p.deep) * 1.0 / sum(p.blocks) as deep_blocks,
           sum(p.scale_high + p.scale_low) as scales_clamped
    from variants v left join taps p on p.variant = v.id
    group by v.id;

create view v_scores as
    select c.label as candidate_name, o.name as corpus_name, s.*
    from scores s join candidates c on c.yard = s.yard and c.id = s.candidate
         join corpora o on o.yard = s.yard and o.id = s.corpus;

create view v_kl as
    select s.yard, c.id as candidate, c.label, c.bits_per_weight, c.floor, count(*) as chunks,
           sum(s.positions) as positions, sum(s.nan) as nan, sum(s.infinite) as infinite,
           sum(s.kl * s.finite) / sum(s.finite) as kl, max(s.kl_max) as kl_max,
           sum(s.top1 * (s.positions - s.nan)) / sum(s.positions - s.nan) as top1,
           exp(sum(s.nll * (s.positions - s.nan)) / sum(s.positions - s.nan)) as ppl
    from scores s join candidates c on c.yard = s.yard and c.id = s.candidate
    group by s.yard, c.id;

create view v_calibrated as
    select v.name as variant_name, t.name as tensor_name, t.kind, t.layer, t.expert, t.projection, t.mtp,
           c.out2 / c.base_out2 as out_ratio, c.rel2 / c.base_rel2 as weight_ratio,
           c.changed * 1.0 / c.codes as changed_share, c.*
    from calibrated c join variants v on v.id = c.variant join tensors t on t.id = c.tensor;

create view v_assigned as
    select v.name as variant_name, t.name as tensor_name, t.kind, t.layer, t.expert, t.projection, t.mtp,
           g.name as stored_as, g.scheme, p.rel2, p.rel_l2, a.*
    from assigned a join variants v on v.id = a.variant join tensors t on t.id = a.tensor
         left join recipe_groups g on g.variant = a.variant and g.id = a.group_id
         left join taps p on p.variant = a.variant and p.tensor = a.tensor;

create view v_answers as
    select r.suite, p.name as probe_name, p.family, c.name as case_name, c.tokens as context, c.depth, m.label as arm_name, m.role, a.*
    from answers a join gate_runs r on r.id = a.run join probes p on p.run = a.run and p.id = a.probe
         join cases c on c.run = a.run and c.probe = a.probe and c.id = a.case_id join arms m on m.run = a.run and m.id = a.arm
    where not a.replaced;

create view v_gates as
    select run, suite, probe, probe_name, arm, arm_name, role, sum(passed) as passed, count(*) as answers,
           (select p.cases * p.passes from probes p where p.run = a.run and p.id = a.probe) as of, sum(passed) * 1.0 / count(*) as share,
           sum(fault is 'error') as erred, sum(fault is 'empty') as empty, sum(fault is 'truncated') as truncated, sum(fault is 'malformed') as malformed,
           sum(replacement + invalid > 0) as broken, sum(replacement) as replacement, sum(completion_tokens) as tokens, sum(seconds) as seconds
    from v_answers a
    group by run, probe, arm;

create view v_bias as
    select c.label as candidate_name, r.*
    from bias_rows r join bias_candidates c on c.run = r.run and c.id = r.candidate;

create view v_tier as
    select w.run, w.budget, b.label, w.id as window, w.first, w.tokens, w.hits * 1.0 / nullif(w.pairs, 0) as hit_share,
           w.hot * 1.0 / (r.layers * r.experts) as coverage, w.promoted, w.evicted, w.churn, w.held, w.hot, w.hot_bytes, b.bytes as budget_bytes
    from tier_windows w join tier_runs r on r.id = w.run join tier_budgets b on b.run = w.run and b.id = w.budget;

create view v_log as
    select l.seq, l.at_us / 1e6 as seconds, l.kind, v.name as variant_name, t.name as tensor_name, l.message
    from log l left join variants v on v.id = l.variant left join tensors t on t.id = l.tensor
    order by l.seq;
