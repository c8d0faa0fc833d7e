BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE artifacts (
	digest VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	size INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "artifacts" VALUES('efa55d969272288d73d5c48d19ce1ad8fd842c73fb6261d45c86b10b2e4438ae','source',43,X'789CD3D752C84E2DCA4BCD513050D0D2E7E5E2AC50B055503FBC52DD5A415F5FE151C30A05A5C2D2FC92D414252E0001700C76');
INSERT INTO "artifacts" VALUES('d2c4d70c3f2f19939e5a160fbe1f78990a277c45cb7c2a329b5bcbe834109107','source',43,X'789CD3D752C84E2DCA4BCD513054D0D2E7E5E2AC50B055503FBC52DD5A415F5FE151C30A05A5C2D2FC92D414252E0001910C77');
CREATE TABLE events (
	number INTEGER NOT NULL, 
	run_id VARCHAR(32) NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "events" VALUES(1,'run-1','2026-11-21T03:15:05.005+00:00','started','{"process":1}');
CREATE TABLE outcomes (
	"key" VARCHAR(128) NOT NULL, 
	outcome TEXT NOT NULL, 
	bound FLOAT, 
	PRIMARY KEY ("key")
);
INSERT INTO "outcomes" VALUES('key','{"bound":100.0,"kind":"slower_than_limit","line":null,"log":"stopped","stage":"measure","type":"Failed"}',100.0);
CREATE TABLE runs (
	number INTEGER NOT NULL, 
	id VARCHAR(32) NOT NULL, 
	identity VARCHAR(16) NOT NULL, 
	task TEXT NOT NULL, 
	target TEXT NOT NULL, 
	settings TEXT NOT NULL, 
	versions TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	stop_reason TEXT NOT NULL, 
	wall_s FLOAT NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
INSERT INTO "runs" VALUES(1,'run-1','d60d12834a36ad05','toy:digits','toy','{"dropout":0.7,"max_wall_s":null,"proposer":"toy","seed":1}','{"toy":"1"}','2026-01-01T00:00:00','running','',0.0);
CREATE TABLE trials (
	run_id VARCHAR(32) NOT NULL, 
	"index" INTEGER NOT NULL, 
	iteration INTEGER NOT NULL, 
	candidate_id VARCHAR(16) NOT NULL, 
	parent_id VARCHAR(16), 
	proposer TEXT NOT NULL, 
	"plan" TEXT, 
	source_digest VARCHAR(64) NOT NULL, 
	outcome TEXT NOT NULL, 
	latency FLOAT, 
	binary_digest VARCHAR(64) NOT NULL, 
	wall_s FLOAT NOT NULL, 
	cached BOOLEAN NOT NULL, 
	PRIMARY KEY (run_id, "index"), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	FOREIGN KEY(source_digest) REFERENCES artifacts (digest)
);
INSERT INTO "trials" VALUES('run-1',0,0,'02b544af11b52cdb',NULL,'toy',NULL,'efa55d969272288d73d5c48d19ce1ad8fd842c73fb6261d45c86b10b2e4438ae','{"artifact_digest":"abababababababababababababababababababababababababababababababab","breakdown":{"cpu":10.0},"details":{"instructions":5.0},"latency":1234.0,"quantity":"simulated","type":"Measured","unit":"cycles","utilization":0.5,"verdict":{"checks":[{"distribution":"full range","seed":1,"type":"Check"},{"distribution":"sparse","seed":2,"type":"Check"}],"type":"Verdict"},"versions":{"compiler":"gcc 12"}}',1234.0,'abababababababababababababababababababababababababababababababab',0.25,0);
INSERT INTO "trials" VALUES('run-1',1,0,'5c72c18ca50e78ec','parent','toy','{"expected":"cpu 10 %","option":"unroll","parameters":{"factor":4,"loop":"j"},"parent_id":"parent","proposer":"toy","text":"unroll j","type":"Plan"}','d2c4d70c3f2f19939e5a160fbe1f78990a277c45cb7c2a329b5bcbe834109107','{"bound":null,"kind":"wrong_result","line":7,"log":"C[0][1] is 3, expected 4\nhint: \u2026","stage":"check","type":"Failed"}',NULL,'',0.25,1);
CREATE INDEX ix_runs_identity ON runs (identity);
CREATE INDEX ix_trials_candidate_id ON trials (candidate_id);
CREATE INDEX ix_events_run_id ON events (run_id);
COMMIT;
