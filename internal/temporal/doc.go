// Package temporal runs the Temporal server inside Davit's own process on a SQLite file, and dials it or a
// Temporal cluster that somebody else runs.
//
// It knows nothing of promotions: namespaces, search attributes and retention are given to it. It must not
// import workflows, activities or steps. Start reading at Start; External is the other way to get a client.
//
// # What the embedded server promises
//
//   - One process per directory: Start takes a file lock (LockDir) and names the process that holds it.
//   - The schema is created, or migrated from an older release, in one transaction, and carries a stamp. A
//     schema newer than this program is refused: an older server must not write into it.
//   - All four ports are on 127.0.0.1 and accept only the certificate that was made in memory at this start,
//     so other users of the machine can't reach Temporal.
//   - No log line ends the process: where Temporal asks for that, the goroutine ends and Failed is closed.
//
// # Why these settings
//
// One history shard and one database connection: SQLite has one writer, and more of either only adds lock
// errors (measured). WAL with synchronous=normal is four to five times faster than the rollback journal; it
// can lose the last commits at a power loss, never the file's integrity, and DurabilityFull closes that gap.
package temporal
