-- Artifacts and universes are of a run, or of a deploy outside any run. SQLite changes no constraint in place: the tables are
-- made anew, children first to go, in the order in which their rows were written.
create table universes_of_holders (
    id text primary key,
    run text references runs (id),
    deploy text,
    revision integer not null,
    document text not null,
    check ((run is null) <> (deploy is null))
) strict;

insert into universes_of_holders (id, run, deploy, revision, document)
select id, run, null, revision, document from universes order by rowid;

create table artifacts_of_holders (
    id text primary key,
    run text references runs (id),
    deploy text,
    universe text references universes_of_holders (id),
    name text not null,
    media_type text not null,
    size integer not null,
    sha256 text not null,
    sensitive integer not null,
    created_at text not null,
    check ((run is null) <> (deploy is null))
) strict;

insert into artifacts_of_holders (id, run, deploy, universe, name, media_type, size, sha256, sensitive, created_at)
select id, run, null, universe, name, media_type, size, sha256, sensitive, created_at from artifacts order by rowid;

drop table artifacts;
drop table universes;
alter table universes_of_holders rename to universes;
alter table artifacts_of_holders rename to artifacts;

create index artifacts_by_run on artifacts (run);
create index artifacts_by_deploy on artifacts (deploy) where deploy is not null;
create index artifacts_by_universe on artifacts (universe) where universe is not null;
create index universes_by_run on universes (run);
create index universes_by_deploy on universes (deploy) where deploy is not null;
