package git

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/davit-cd/davit/internal/promo"
)

// agent is how the client names itself to servers.
const agent = "davit"

// maxAdvertisement bounds a reference list: a million branches are too many.
const maxAdvertisement = 128 << 20

// client speaks Git's protocol with one repository and remembers what its server can do.
type client struct {
	t   transport
	url string

	mu      sync.Mutex
	upload  *capabilities
	receive *capabilities
}

// capabilities is what a service says of itself. For version 2 values are by command ("fetch" to "shallow filter").
type capabilities struct {
	version int
	values  map[string]string
	// refs is only filled by version 0 and by the receiving side; it was true when it was read.
	refs map[string]plumbing.Hash
}

func (c *capabilities) has(name string) bool { _, ok := c.values[name]; return ok }

func (c *capabilities) fetchHas(feature string) bool {
	if c.version != 2 {
		return c.has(feature)
	}
	for f := range strings.FieldsSeq(c.values["fetch"]) {
		if f == feature {
			return true
		}
	}
	return false
}

// uploadCaps returns the fetching side's capabilities, asked for once. Version 0 is asked anew every time: its
// references come along.
func (c *client) uploadCaps(ctx context.Context) (*capabilities, error) {
	c.mu.Lock()
	known := c.upload
	c.mu.Unlock()
	if known != nil && known.version == 2 {
		return known, nil
	}
	caps, err := c.advertised(ctx, uploadPack)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.upload = caps
	c.mu.Unlock()
	return caps, nil
}

func (c *client) receiveCaps(ctx context.Context) (*capabilities, error) {
	c.mu.Lock()
	known := c.receive
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	caps, err := c.advertised(ctx, receivePack)
	if err != nil {
		return nil, err
	}
	if !caps.has("report-status") {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s cannot report the outcome of a push", c.url)
	}
	caps.refs = nil // old news by the next push
	c.mu.Lock()
	c.receive = caps
	c.mu.Unlock()
	return caps, nil
}

func (c *client) advertised(ctx context.Context, svc service) (*capabilities, error) {
	body, err := c.t.advertise(ctx, svc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	caps, err := parseAdvertisement(newPktReader(io.LimitReader(body, maxAdvertisement)))
	if err != nil {
		return nil, wireError(ctx, c.url, unexpected(err))
	}
	return caps, nil
}

func parseAdvertisement(p *pktReader) (*capabilities, error) {
	kind, line, err := p.text()
	if err == nil && kind == pktData && strings.HasPrefix(line, "# service=") {
		if kind, line, err = p.text(); err == nil && kind == pktFlush {
			kind, line, err = p.text()
		}
	}
	if err != nil {
		return nil, err
	}
	caps := &capabilities{values: map[string]string{}, refs: map[string]plumbing.Hash{}}
	if kind == pktData && line == "version 2" {
		caps.version = 2
	}
	for first := true; kind == pktData; first = false {
		switch {
		case caps.version == 2:
			name, value, _ := strings.Cut(line, "=")
			caps.values[name] = value
		case strings.HasPrefix(line, "version "):
		default:
			caps.ref(line, first)
		}
		if kind, line, err = p.text(); err != nil {
			return nil, err
		}
	}
	return caps, nil
}

// ref reads one line of a version 0 advertisement; the first one carries the capabilities.
func (c *capabilities) ref(line string, first bool) { //nolint:revive // a fact about what is written, not a mode
	line, list, found := strings.Cut(line, "\x00")
	if found || first {
		for f := range strings.FieldsSeq(list) {
			name, value, _ := strings.Cut(f, "=")
			c.values[name] = value
		}
	}
	id, name, ok := strings.Cut(line, " ")
	if ok && plumbing.IsHash(id) && name != "capabilities^{}" {
		c.refs[name] = plumbing.NewHash(id)
	}
}

// lsRefs returns the references with one of the prefixes, as the server has them now.
func (c *client) lsRefs(ctx context.Context, prefixes ...string) (map[string]plumbing.Hash, error) {
	caps, err := c.uploadCaps(ctx)
	if err != nil {
		return nil, err
	}
	if caps.version != 2 {
		return caps.refs, nil
	}
	body := pkt(nil, "command=ls-refs")
	body = append(pkt(body, "agent=%s", agent), delimPkt...)
	for _, p := range prefixes {
		body = pkt(body, "ref-prefix %s", p)
	}
	answer, err := c.t.call(ctx, uploadPack, append(body, flushPkt...))
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	refs := map[string]plumbing.Hash{}
	p := newPktReader(io.LimitReader(answer, maxAdvertisement))
	for {
		kind, line, err := p.text()
		if err != nil {
			return nil, wireError(ctx, c.url, unexpected(err))
		}
		if kind != pktData {
			return refs, nil
		}
		if f := strings.Fields(line); len(f) >= 2 && plumbing.IsHash(f[0]) {
			refs[f[1]] = plumbing.NewHash(f[0])
		}
	}
}

// fetchRequest asks for a pack.
type fetchRequest struct {
	wants []plumbing.Hash
	// haves are commits whose trees (and, without a filter, blobs) are all here. They are told as shallow, so
	// that the server assumes nothing about what lies before them.
	haves []plumbing.Hash
	// depth bounds the commits from each want; 0 sends all.
	depth int
	// filter is blob:none or tree:0, left out where the server knows no filters.
	filter string
	// thin lets the pack hold deltas on objects of the haves.
	thin bool
}

// fetch sends the request and gives the pack to use, still being received.
func (c *client) fetch(ctx context.Context, req fetchRequest, use func(pack io.Reader) error) error {
	caps, err := c.uploadCaps(ctx)
	if err != nil {
		return err
	}
	build, open := fetchBodyV2, openPackV2
	if caps.version != 2 {
		build, open = fetchBodyV0, openPackV0
	}
	answer, err := c.t.call(ctx, uploadPack, build(req, caps))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	pack, err := open(newPktReader(answer))
	if err == nil {
		err = use(pack)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, pack) // the flush at the end, so that the connection can be used again
	}
	return wireError(ctx, c.url, unexpected(err))
}

func fetchBodyV2(req fetchRequest, caps *capabilities) []byte {
	body := pkt(nil, "command=fetch")
	body = append(pkt(body, "agent=%s", agent), delimPkt...)
	body = pkt(pkt(body, "no-progress"), "ofs-delta")
	if req.thin {
		body = pkt(body, "thin-pack")
	}
	if req.depth > 0 && caps.fetchHas("shallow") {
		body = pkt(body, "deepen %d", req.depth)
	}
	if caps.fetchHas("shallow") {
		for _, h := range req.haves {
			body = pkt(body, "shallow %s", h)
		}
	}
	if req.filter != "" && caps.fetchHas("filter") {
		body = pkt(body, "filter %s", req.filter)
	}
	for _, h := range req.wants {
		body = pkt(body, "want %s", h)
	}
	if caps.fetchHas("shallow") {
		for _, h := range req.haves {
			body = pkt(body, "have %s", h)
		}
	}
	return append(pkt(body, "done"), flushPkt...)
}

func openPackV2(p *pktReader) (io.Reader, error) {
	for {
		kind, line, err := p.text()
		if err != nil {
			return nil, err
		}
		if kind == pktFlush {
			return bytes.NewReader(nil), nil
		}
		if kind == pktData && line == "packfile" {
			return &sideband{p: p, say: func([]byte) {}}, nil
		}
	}
}

// fetchBodyV0 is the request of the protocol's first version: same words, other order.
func fetchBodyV0(req fetchRequest, caps *capabilities) []byte { //nolint:gocognit // one grammar or protocol, read from top to bottom
	flags := []string{"agent=" + agent}
	for _, f := range []string{"side-band-64k", "ofs-delta", "thin-pack", "no-progress"} {
		if caps.has(f) && (f != "thin-pack" || req.thin) {
			flags = append(flags, f)
		}
	}
	if req.depth > 0 && caps.has("shallow") {
		flags = append(flags, "shallow")
	}
	if req.filter != "" && caps.has("filter") {
		flags = append(flags, "filter")
	}
	var body []byte
	for i, h := range req.wants {
		if i == 0 {
			body = pkt(body, "want %s %s", h, strings.Join(flags, " "))
			continue
		}
		body = pkt(body, "want %s", h)
	}
	if caps.has("shallow") {
		for _, h := range req.haves {
			body = pkt(body, "shallow %s", h)
		}
		if req.depth > 0 {
			body = pkt(body, "deepen %d", req.depth)
		}
	}
	if req.filter != "" && caps.has("filter") {
		body = pkt(body, "filter %s", req.filter)
	}
	body = append(body, flushPkt...)
	if caps.has("shallow") {
		for _, h := range req.haves {
			body = pkt(body, "have %s", h)
		}
	}
	return pkt(body, "done")
}

func openPackV0(p *pktReader) (io.Reader, error) {
	for {
		peek, err := p.r.Peek(5)
		if err != nil {
			return nil, err
		}
		if string(peek[:4]) == "PACK" { // no side band
			return p.r, nil
		}
		if n := peek[4]; string(peek[:4]) != flushPkt && n >= 1 && n <= 3 {
			return &sideband{p: p, say: func([]byte) {}}, nil
		}
		if _, _, err := p.next(); err != nil { // shallow, unshallow, ACK, NAK and the flushes between them
			return nil, err
		}
	}
}
