package git

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/davit-cd/davit/internal/promo"
)

// trailer is the line of a commit message that names the operation.
const trailer = "Davit-Operation"

// Commit is a commit as people and finders need it.
type Commit struct {
	ID      string
	Parents []string
	Author  string
	Email   string
	When    time.Time
	Subject string
	// Operation is the id in the trailer, "" where there is none.
	Operation string
}

// commit is the parsed form that walks use.
type commit struct {
	id        plumbing.Hash
	tree      plumbing.Hash
	parents   []plumbing.Hash
	committed int64 // seconds
	author    person
	message   string
	operation string
}

type person struct {
	name, email string
	when        time.Time
}

func (c *commit) public() Commit {
	out := Commit{ID: c.id.String(), Author: c.author.name, Email: c.author.email, When: c.author.when, Operation: c.operation}
	out.Subject, _, _ = strings.Cut(c.message, "\n")
	for _, p := range c.parents {
		out.Parents = append(out.Parents, p.String())
	}
	return out
}

func parseCommit(id plumbing.Hash, data []byte) (*commit, error) {
	c := &commit{id: id}
	head, message, _ := bytes.Cut(data, []byte("\n\n"))
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		key, value, _ := strings.Cut(string(line), " ")
		switch key {
		case "tree":
			c.tree = plumbing.NewHash(value)
		case "parent":
			c.parents = append(c.parents, plumbing.NewHash(value))
		case "author":
			c.author = parsePerson(value)
		case "committer":
			c.committed = parsePerson(value).when.Unix()
		}
	}
	if c.tree.IsZero() {
		return nil, promo.Errorf(promo.CodeInternal, "commit %s names no tree", id)
	}
	c.message = string(message)
	c.operation = operationOf(c.message)
	return c, nil
}

// parsePerson reads "Name <mail> seconds zone"; what is malformed stays empty.
func parsePerson(s string) person {
	name, rest, _ := strings.Cut(s, " <")
	mail, when, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(when, " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		n = 0 // old histories hold broken dates; order is only a matter of speed here
	}
	return person{name: name, email: mail, when: time.Unix(n, 0).UTC()}
}

// operationOf finds the trailer in the last paragraph of a message. The last one counts: ours is put after whatever
// the message says.
func operationOf(message string) string {
	message = strings.TrimRight(message, "\n")
	last := message[strings.LastIndex(message, "\n\n")+1:]
	operation := ""
	for line := range strings.SplitSeq(last, "\n") {
		if value, ok := strings.CutPrefix(line, trailer+": "); ok {
			operation = strings.TrimSpace(value)
		}
	}
	return operation
}

// messageOf adds the trailer to the message, in the paragraph of trailers where there is one.
func messageOf(message, operation string) string {
	message = strings.TrimRight(strings.ReplaceAll(message, "\r\n", "\n"), " \n\t")
	message = strings.ReplaceAll(message, "\x00", "")
	if message == "" {
		message = "Change by Davit"
	}
	if operation == "" {
		return message + "\n"
	}
	gap := "\n\n"
	if isTrailers(message[strings.LastIndex(message, "\n\n")+1:]) && strings.Contains(message, "\n\n") {
		gap = "\n"
	}
	return message + gap + trailer + ": " + operation + "\n"
}

func isTrailers(paragraph string) bool {
	for line := range strings.SplitSeq(strings.Trim(paragraph, "\n"), "\n") {
		key, _, ok := strings.Cut(line, ": ")
		if !ok || key == "" || strings.ContainsAny(key, " \t") {
			return false
		}
	}
	return true
}

// encodeCommit writes a commit. Author and committer are the same person: the one on whose behalf Davit acts.
func encodeCommit(tree plumbing.Hash, parents []plumbing.Hash, by promo.Principal, at time.Time, message string) object {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	who := signature(by)
	fmt.Fprintf(&b, "author %s %d +0000\ncommitter %s %d +0000\n\n%s", who, at.Unix(), who, at.Unix(), message)
	return object{kind: plumbing.CommitObject, data: b.Bytes()}
}

// signature is "Name <mail>" without the characters that would break a commit's header.
func signature(by promo.Principal) string {
	clean := func(s string) string {
		s = strings.Map(func(r rune) rune {
			if r < ' ' || r == '<' || r == '>' || r == 0x7f {
				return -1
			}
			return r
		}, s)
		return strings.Trim(s, " .,:;\"'\\")
	}
	name, mail := clean(by.Name), strings.ReplaceAll(clean(by.Email), " ", "")
	if name == "" {
		name = "davit"
	}
	if mail == "" {
		mail = strings.ReplaceAll(strings.ToLower(name), " ", ".") + "@davit.invalid"
	}
	return name + " <" + mail + ">"
}
