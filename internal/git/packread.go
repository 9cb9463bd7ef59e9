package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/davit-cd/davit/internal/promo"
)

// packLimits bound a pack that is unpacked in memory.
type packLimits struct {
	object int64 // bytes of one object
	total  int64 // bytes of all objects
}

// entry is an object of a pack as it came: whole, or a delta on an earlier one or on one known by its id.
type entry struct {
	object
	ofs  int64
	ref  plumbing.Hash
	done bool
}

// packReader unpacks a pack, also a thin one, in memory.
type packReader struct {
	r       *bufio.Reader
	read    int64
	limits  packLimits
	spent   int64
	inflate io.ReadCloser
	// base finds objects that a thin pack builds on.
	base    func(plumbing.Hash) (object, error)
	entries []*entry
	at      map[int64]*entry
	byID    map[plumbing.Hash]*entry
}

// readPack returns the objects of the pack by id.
func readPack(r io.Reader, limits packLimits, base func(plumbing.Hash) (object, error)) (map[plumbing.Hash]object, error) {
	p := &packReader{
		r: bufio.NewReaderSize(r, 64<<10), limits: limits, base: base,
		at: map[int64]*entry{}, byID: map[plumbing.Hash]*entry{},
	}
	var head [12]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil //nolint:nilnil // no bytes are no objects: the server had nothing to send
		}
		return nil, unexpected(err)
	}
	if string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return nil, promo.Errorf(promo.CodeConnectivity, "answer is not a pack of version 2")
	}
	p.read = 12
	for range binary.BigEndian.Uint32(head[8:]) {
		if err := p.entry(); err != nil {
			return nil, err
		}
	}
	return p.resolve()
}

// Read and ReadByte count what inflating takes, so that entries know their offsets.
func (p *packReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	return n, err
}

func (p *packReader) ReadByte() (byte, error) {
	b, err := p.r.ReadByte()
	if err == nil {
		p.read++
	}
	return b, err
}

func (p *packReader) entry() error {
	start := p.read
	kind, size, err := p.header()
	if err != nil {
		return unexpected(err)
	}
	e := &entry{object: object{kind: kind}}
	switch kind {
	case plumbing.OFSDeltaObject:
		back, err := p.offset()
		if err != nil {
			return unexpected(err)
		}
		e.ofs = start - back
	case plumbing.REFDeltaObject:
		if _, err := io.ReadFull(p, e.ref[:]); err != nil {
			return unexpected(err)
		}
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		e.done = true
	default:
		return promo.Errorf(promo.CodeConnectivity, "pack holds an object of kind %d", kind)
	}
	if e.data, err = p.body(size); err != nil {
		return err
	}
	p.at[start] = e
	p.entries = append(p.entries, e)
	return nil
}

func (p *packReader) header() (plumbing.ObjectType, int64, error) {
	b, err := p.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	kind, size := plumbing.ObjectType(b>>4&7), int64(b&0x0f)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = p.ReadByte(); err != nil {
			return 0, 0, err
		}
		if shift > 53 {
			return 0, 0, promo.Errorf(promo.CodeConnectivity, "pack holds an object of a size beyond reason")
		}
		size |= int64(b&0x7f) << shift
	}
	return kind, size, nil
}

func (p *packReader) offset() (int64, error) {
	b, err := p.ReadByte()
	if err != nil {
		return 0, err
	}
	n := int64(b & 0x7f)
	for b&0x80 != 0 {
		if b, err = p.ReadByte(); err != nil {
			return 0, err
		}
		if n > 1<<50 {
			return 0, promo.Errorf(promo.CodeConnectivity, "pack holds an offset beyond reason")
		}
		n = (n+1)<<7 | int64(b&0x7f)
	}
	return n, nil
}

func (p *packReader) body(size int64) ([]byte, error) {
	if err := p.spend(size); err != nil {
		return nil, err
	}
	var err error
	if p.inflate == nil {
		p.inflate, err = zlib.NewReader(p)
	} else if r, ok := p.inflate.(zlib.Resetter); ok {
		err = r.Reset(p, nil)
	}
	if err != nil {
		return nil, unexpected(err)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(p.inflate, data); err != nil {
		return nil, unexpected(err)
	}
	// One byte more must be the end; reading it also takes the checksum off the stream.
	if n, err := p.inflate.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, promo.Errorf(promo.CodeConnectivity, "pack holds an object longer than it says")
	}
	return data, nil
}

func (p *packReader) spend(size int64) error {
	if size > p.limits.object {
		return promo.Errorf(promo.CodeConfiguration, "repository holds an object of %d bytes; the limit is %d", size, p.limits.object)
	}
	if p.spent += size; p.spent > p.limits.total {
		return promo.Errorf(promo.CodeConfiguration, "git server sent more than %d bytes of objects", p.limits.total)
	}
	return nil
}

// resolve turns deltas into objects. A delta by id may build on any object of the pack, so that it takes rounds.
func (p *packReader) resolve() (map[plumbing.Hash]object, error) {
	open := make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		if e.done {
			p.byID[e.id()] = e
		} else {
			open = append(open, e)
		}
	}
	inside := func(plumbing.Hash) (object, error) { return object{}, errMissing }
	for find, external := inside, false; len(open) > 0; {
		left := open[:0]
		for _, e := range open {
			ok, err := p.patch(e, find)
			if err != nil {
				return nil, err
			}
			if !ok {
				left = append(left, e)
			}
		}
		if len(left) == len(open) {
			if external {
				return nil, promo.Errorf(promo.CodeConnectivity, "pack holds deltas on each other")
			}
			find, external = p.base, true // nothing inside helps: now ask what is outside
			continue
		}
		open, find, external = left, inside, false
	}
	out := make(map[plumbing.Hash]object, len(p.byID))
	for id, e := range p.byID {
		out[id] = e.object
	}
	return out, nil
}

// patch makes an entry whole if what it builds on is there; find looks outside of the pack.
func (p *packReader) patch(e *entry, find func(plumbing.Hash) (object, error)) (bool, error) {
	base := p.byID[e.ref]
	if e.ofs != 0 {
		if base = p.at[e.ofs]; base == nil {
			return false, promo.Errorf(promo.CodeConnectivity, "pack holds a delta on nothing")
		}
	}
	var on object
	switch {
	case base != nil && base.done:
		on = base.object
	case base != nil:
		return false, nil
	default:
		var err error
		if on, err = find(e.ref); errors.Is(err, errMissing) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	if err := p.spendDelta(e.data); err != nil {
		return false, err
	}
	data, err := packfile.PatchDelta(on.data, e.data)
	if err != nil {
		return false, promo.Errorf(promo.CodeConnectivity, "pack holds a broken delta: %w", err)
	}
	e.object, e.done = object{kind: on.kind, data: data}, true
	p.byID[e.id()] = e
	return true, nil
}

// spendDelta reads the size that the delta will have, before it takes the memory.
func (p *packReader) spendDelta(delta []byte) error {
	r := bytes.NewReader(delta)
	if _, err := binary.ReadUvarint(r); err != nil {
		return promo.Errorf(promo.CodeConnectivity, "pack holds a broken delta: %w", err)
	}
	size, err := binary.ReadUvarint(r)
	if err != nil || size > 1<<50 {
		return promo.Errorf(promo.CodeConnectivity, "pack holds a broken delta")
	}
	return p.spend(int64(size))
}
