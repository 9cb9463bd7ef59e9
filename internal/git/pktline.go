package git

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/davit-cd/davit/internal/promo"
)

// pktKind tells the pkt-line's special lines from data.
type pktKind int

const (
	pktData pktKind = iota
	pktFlush
	pktDelim
	pktEnd
)

// maxPkt is the longest line the protocol allows, its four length digits included.
const maxPkt = 65520

const (
	flushPkt = "0000"
	delimPkt = "0001"
)

// pktReader reads pkt-lines. The slice that next returns is valid until the following call.
type pktReader struct {
	r   *bufio.Reader
	buf []byte
}

func newPktReader(r io.Reader) *pktReader {
	return &pktReader{r: bufio.NewReaderSize(r, maxPkt), buf: make([]byte, maxPkt)}
}

func (p *pktReader) next() (pktKind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, nil, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil {
		return 0, nil, promo.Errorf(promo.CodeConnectivity, "answer is not git's protocol: line starts with %q", head[:])
	}
	switch {
	case n == 0:
		return pktFlush, nil, nil
	case n == 1:
		return pktDelim, nil, nil
	case n == 2:
		return pktEnd, nil, nil
	case n < 4 || n > maxPkt:
		return 0, nil, promo.Errorf(promo.CodeConnectivity, "answer is not git's protocol: line of %d bytes", n)
	}
	line := p.buf[:n-4]
	if _, err := io.ReadFull(p.r, line); err != nil {
		return 0, nil, unexpected(err)
	}
	if msg, ok := bytes.CutPrefix(line, []byte("ERR ")); ok {
		return 0, nil, serverError(string(bytes.TrimSpace(msg)))
	}
	return pktData, line, nil
}

// text is next for lines of text: the line feed at the end is cut.
func (p *pktReader) text() (pktKind, string, error) {
	kind, line, err := p.next()
	return kind, string(bytes.TrimSuffix(line, []byte("\n"))), err
}

func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // io.ReadFull returns it bare
		return io.ErrUnexpectedEOF
	}
	return err
}

// pkt appends one line of text with its length and line feed.
func pkt(b []byte, format string, args ...any) []byte {
	line := fmt.Sprintf(format, args...)
	return append(b, fmt.Sprintf("%04x%s\n", len(line)+5, line)...)
}

// sideband gives the bytes of band 1 and hands band 2, what the server says to people, to say. Band 3 is an error.
type sideband struct {
	p    *pktReader
	say  func([]byte)
	rest []byte
	done bool
}

func (s *sideband) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.done {
			return 0, io.EOF
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *sideband) fill() error {
	kind, line, err := s.p.next()
	if err != nil {
		return unexpected(err)
	}
	if kind != pktData {
		s.done = true
		return nil
	}
	if len(line) == 0 {
		return nil
	}
	switch line[0] {
	case 1:
		s.rest = line[1:]
	case 2:
		s.say(line[1:])
	case 3:
		return serverError(string(bytes.TrimSpace(line[1:])))
	default:
		return promo.Errorf(promo.CodeConnectivity, "answer is not git's protocol: band %d", line[0])
	}
	return nil
}
