-- Versions are never reused, not even after `env rm`: `next_version` only grows. `head` is what the bare name means.
create table env_names (
    name text primary key,
    next_version integer not null,
    head integer
) strict;

create table envs (
    name text not null,
    version integer not null,
    kind text not null,
    digest text not null,
    source text,
    tree text,
    record text not null,
    created_at text not null,
    primary key (name, version),
    unique (name, digest)
) strict;

-- Who runs or ran a version: while a row is here, the version stays.
create table env_references (
    holder_kind text not null,
    holder text not null,
    name text not null,
    version integer not null,
    primary key (holder_kind, holder, name, version),
    foreign key (name, version) references envs (name, version)
) strict;

create table builds (
    key text primary key,
    tree text not null,
    created_at text not null
) strict;

create table runs (
    id text primary key,
    revision integer not null,
    created_at text not null,
    updated_at text not null,
    document text not null
) strict;

create table universes (
    id text primary key,
    run text not null references runs (id),
    revision integer not null,
    document text not null
) strict;

create table artifacts (
    id text primary key,
    run text not null references runs (id),
    universe text references universes (id),
    name text not null,
    media_type text not null,
    size integer not null,
    sha256 text not null,
    sensitive integer not null,
    created_at text not null
) strict;

create index artifacts_by_run on artifacts (run);
