// Package script runs the built program the way people do: each .txtar file here is a session at a shell, and every
// command that README.md and the pages in docs/ show appears in one of them.
//
// Beside testscript's own commands there are, for what must be waited for without sleeping:
//
//	up [FLAG…]              starts `davit up` on a free port in $DATA; returns when it says that it is ready; sets $URL
//	makedemo                the same by `make demo`
//	down                    stops it as Ctrl-C does, and demands that it ends well
//	crash                   kills it as kill -9 does
//	until PATTERN CMD…      runs a command until its output matches, then ends it
//	await PATTERN CMD…      runs a command again and again until its output matches
//
// It must not reach into the program: what can't be seen from outside isn't tested here. Start reading at main_test.go.
package script
