// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// listPage is how many objects are in one answer where all are read once.
const listPage = 1000

// mostObject is how many bytes an object may have; etcd takes far fewer.
const mostObject = 64 << 20

// livePods is the field selector that has the API server leave out pods that have ended.
const livePods = "status.phase!=Succeeded,status.phase!=Failed"

// readAll lists all objects of a kind that a field selector accepts, once, as an informer does at first: from the API server's cache, which
// may lag behind by a moment, answers in one piece and spares both sides twenty questions; from etcd, page by page, where that
// is no cache, as of events. Pages that took longer than the API server remembers are
// followed by all objects at once; each is then called again with those that it has had.
func readAll[T metav1.Object](ctx context.Context, src source, selector string, each func(T)) error {
	err := readPages(ctx, src, selector, listPage, each)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		err = readPages(ctx, src, selector, 0, each)
	}
	return err
}

// readPages lists all objects, so many at a time; 0: all at once. Objects in protobuf are decoded while the API server still writes the
// answer, and it makes the next page meanwhile.
func readPages[T metav1.Object](ctx context.Context, src source, selector string, page int64, each func(T)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		body io.ReadCloser
		err  error
	}
	ask := func(token string) chan answer {
		out := make(chan answer, 1)
		go func() {
			opts := metav1.ListOptions{FieldSelector: selector, Limit: page, Continue: token}
			if token == "" {
				opts.ResourceVersion = "0"
			}
			body, err := src.client.Get().Resource(src.resource).VersionedParams(&opts, metav1.ParameterCodec).Stream(ctx)
			out <- answer{body, err}
		}()
		return out
	}
	for next := ask(""); next != nil; {
		a := <-next
		next = nil
		if a.err != nil {
			return a.err
		}
		err := readList(bufio.NewReaderSize(a.body, 64<<10), each, func(token string) {
			if token != "" {
				next = ask(token)
			}
		})
		if err := errors.Join(err, a.body.Close()); err != nil {
			return fmt.Errorf("read %s: %w", src.resource, err)
		}
	}
	return nil
}

// eachItem calls each with every object of a list.
func eachItem[T metav1.Object](list runtime.Object, each func(T)) error {
	return meta.EachListItem(list, func(obj runtime.Object) error {
		x, ok := obj.(T)
		if !ok {
			return fmt.Errorf("list: got a %T, want a %T", obj, x)
		}
		each(x)
		return nil
	})
}

// Field numbers in runtime.Unknown, in all list types, and in ListMeta.
const (
	unknownRaw   = 2
	listMetadata = 1
	listItems    = 2
	metaContinue = 3
)

// readList reads the objects of a list. It says the token of the page after it, empty for the last, as soon as it is known: in protobuf
// before the objects, in JSON after them.
func readList[T metav1.Object](r *bufio.Reader, each func(T), more func(token string)) error {
	const protobuf = "k8s\x00"
	if head, err := r.Peek(len(protobuf)); err != nil || string(head) != protobuf {
		return readJSONList(r, each, more)
	}
	if _, err := r.Discard(len(protobuf)); err != nil {
		return err
	}
	unknown := protoFields{r, math.MaxInt64}
	for {
		number, size, err := unknown.next()
		if err != nil {
			return err
		}
		if number != unknownRaw {
			if err := unknown.skip(size); err != nil {
				return err
			}
			continue
		}
		if err := readItems(&protoFields{r, size}, each, more); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r) // what follows the list is of no use, but the connection is
		return err
	}
}

func readJSONList[T metav1.Object](r io.Reader, each func(T), more func(token string)) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	list, err := runtime.Decode(client.Codecs.UniversalDeserializer(), body)
	if err != nil {
		return err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	more(m.GetContinue())
	return eachItem(list, each)
}

// readItems decodes the objects of a list one by one. A slice of a thousand pods that grows while they are decoded costs as much as
// decoding them.
func readItems[T metav1.Object](list *protoFields, each func(T), more func(token string)) error {
	kind := reflect.TypeFor[T]().Elem()
	var buffer []byte // objects keep nothing of it
	for list.left > 0 {
		number, size, err := list.next()
		if err != nil {
			return err
		}
		if number != listMetadata && number != listItems {
			if err := list.skip(size); err != nil {
				return err
			}
			continue
		}
		if buffer, err = list.read(size, buffer); err != nil {
			return err
		}
		if number == listMetadata {
			token, _ := bytesField(buffer, metaContinue)
			more(string(token))
			continue
		}
		x := reflect.New(kind).Interface()
		m, ok := x.(interface{ Unmarshal([]byte) error })
		if !ok {
			return fmt.Errorf("a %T has no protobuf", x)
		}
		if err := m.Unmarshal(buffer); err != nil {
			return err
		}
		each(x.(T))
	}
	return nil
}

// protoFields reads a protobuf message whose fields are all strings, bytes or messages, as those of lists are.
type protoFields struct {
	r    *bufio.Reader
	left int64 // bytes of the message
}

// next reads the number of the next field, and how many bytes it has.
func (f *protoFields) next() (number protowire.Number, size int64, err error) {
	tag, err := f.varint()
	if err != nil {
		return 0, 0, err
	}
	number, wire := protowire.DecodeTag(tag)
	if wire != protowire.BytesType {
		return 0, 0, fmt.Errorf("field %d is no string, bytes or message", number)
	}
	length, err := f.varint()
	if err == nil && (length > math.MaxInt64 || int64(length) > f.left) {
		err = fmt.Errorf("field %d is longer than its message", number)
	}
	return number, int64(length), err
}

func (f *protoFields) varint() (uint64, error) {
	var raw [binary.MaxVarintLen64]byte
	for i := range raw {
		b, err := f.r.ReadByte()
		if err != nil {
			return 0, notEnd(err)
		}
		f.left--
		if raw[i] = b; b < 0x80 {
			v, n := binary.Uvarint(raw[:i+1])
			if n <= 0 {
				break
			}
			return v, nil
		}
	}
	return 0, errors.New("a number has too many digits")
}

// read reads so many bytes into a buffer, which is enlarged if necessary.
func (f *protoFields) read(size int64, buffer []byte) ([]byte, error) {
	if size > mostObject {
		return nil, fmt.Errorf("an object of %d bytes", size)
	}
	buffer = slices.Grow(buffer[:0], int(size))[:size]
	_, err := io.ReadFull(f.r, buffer)
	f.left -= size
	return buffer, notEnd(err)
}

func (f *protoFields) skip(size int64) error {
	_, err := io.CopyN(io.Discard, f.r, size)
	f.left -= size
	return notEnd(err)
}

// notEnd makes an error of an answer that ends within a message.
func notEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bytesField finds the first field with a number in a protobuf message; false: there is none, or it is no string, bytes or message.
func bytesField(message []byte, number protowire.Number) ([]byte, bool) {
	for len(message) > 0 {
		have, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		if have == number {
			value, n := protowire.ConsumeBytes(message)
			return value, kind == protowire.BytesType && n >= 0
		}
		if n = protowire.ConsumeFieldValue(have, kind, message); n < 0 {
			return nil, false
		}
		message = message[n:]
	}
	return nil, false
}
