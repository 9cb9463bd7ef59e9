package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the checksum that the pack format asks for
	"encoding/binary"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// object is a Git object in memory. Data is shared and must not be changed.
type object struct {
	kind plumbing.ObjectType
	data []byte
}

func (o object) id() plumbing.Hash { return plumbing.ComputeHash(o.kind, o.data) }

// newObject is an object that a change made. Where base is set the server has base, an earlier version of the
// same tree, and the object travels as a delta on it: a tree of thousands of entries costs some fifty bytes.
type newObject struct {
	object
	id   plumbing.Hash
	base plumbing.Hash
	from []byte
}

// encodePack makes a pack of the objects; with thin deltas where they have bases.
func encodePack(objects []newObject) ([]byte, error) {
	var out bytes.Buffer
	_, err := writePackTo(&out, len(objects), func(i int) (newObject, error) { return objects[i], nil })
	return out.Bytes(), err
}

// writePackTo writes a pack of n objects and returns its checksum, by which packs are named.
func writePackTo(w io.Writer, n int, get func(i int) (newObject, error)) (plumbing.Hash, error) {
	var sum plumbing.Hash
	hash := sha1.New() //nolint:gosec // the checksum that the pack format asks for
	out := io.MultiWriter(w, hash)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(n)) //nolint:gosec // far fewer than 2³² objects
	if _, err := out.Write(head); err != nil {
		return sum, err
	}
	z := zlib.NewWriter(out)
	for i := range n {
		o, err := get(i)
		if err == nil {
			err = writeEntry(out, z, o)
		}
		if err != nil {
			return sum, err
		}
	}
	hash.Sum(sum[:0])
	_, err := w.Write(sum[:])
	return sum, err
}

func writeEntry(out io.Writer, z *zlib.Writer, o newObject) error {
	kind, data := o.kind, o.data
	if !o.base.IsZero() {
		if d := editDelta(o.from, o.data); len(d) < len(o.data)/2 {
			kind, data = plumbing.REFDeltaObject, d
		}
	}
	head := packHeader(kind, len(data))
	if kind == plumbing.REFDeltaObject {
		head = append(head, o.base[:]...)
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	z.Reset(out)
	if _, err := z.Write(data); err != nil {
		return err
	}
	return z.Close()
}

// packHeader is the kind in three bits and the size in groups of four and then seven bits.
func packHeader(kind plumbing.ObjectType, size int) []byte {
	b := []byte{byte(kind)<<4 | byte(size&0x0f)} //nolint:gosec // kinds have three bits
	for size >>= 4; size > 0; size >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(size&0x7f))
	}
	return b
}

// editDelta describes to as from with one stretch replaced: what one edit does to a tree.
func editDelta(from, to []byte) []byte {
	short := min(len(from), len(to))
	head := 0
	for head < short && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < short-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	d := binary.AppendUvarint(nil, uint64(len(from)))
	d = binary.AppendUvarint(d, uint64(len(to)))
	d = deltaCopy(d, 0, head)
	for fresh := to[head : len(to)-tail]; len(fresh) > 0; {
		n := min(len(fresh), 127) // an insert's length has seven bits
		d = append(append(d, byte(n)), fresh[:n]...)
		fresh = fresh[n:]
	}
	return deltaCopy(d, len(from)-tail, tail)
}

// deltaCopy appends "copy size bytes from offset", in stretches of at most 0xffff bytes.
func deltaCopy(d []byte, offset, size int) []byte {
	for size > 0 {
		n := min(size, 0xffff)
		op := len(d)
		d = append(d, 0x80)
		for i := range 4 {
			if b := byte(offset >> (8 * i)); b != 0 { //nolint:gosec // one byte at a time is meant
				d[op] |= 1 << i
				d = append(d, b)
			}
		}
		for i := range 2 {
			if b := byte(n >> (8 * i)); b != 0 { //nolint:gosec // one byte at a time is meant
				d[op] |= 0x10 << i
				d = append(d, b)
			}
		}
		offset, size = offset+n, size-n
	}
	return d
}
