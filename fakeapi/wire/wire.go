// Package wire writes JSON and ids exactly as Messenger puts them on the wire. Ids
// depend on a seed and a number alone, so that a run can be repeated. It has the wait
// of the fake's other packages, too.
package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// Append appends v as JSON in ASCII, escaped as Messenger does. It writes `/` as `\/`,
// `<` `%` `@` as \u003C \u0025 \u0040, and everything beyond ASCII as \u00e4. A
// receiver that parses and serialises again gets other bytes, and so another
// signature. v must be of a type that always has a JSON form.
func Append(b []byte, v any) []byte {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // which is done in another way
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("fakeapi: encode %T: %v", v, err))
	}
	for _, r := range strings.TrimSuffix(text.String(), "\n") { // these stand in strings alone
		switch {
		case r == '/':
			b = append(b, `\/`...)
		case r == '<':
			b = append(b, `\u003C`...)
		case r == '%' || r == '@':
			b = appendUnit(b, uint16(r))
		case r < utf8.RuneSelf:
			b = append(b, byte(r)) //nolint:gosec // below 0x80
		case r <= 0xffff:
			b = appendUnit(b, uint16(r))
		default:
			r -= 0x10000
			b = appendUnit(b, 0xd800|uint16(r>>10)) //nolint:gosec // at most 20 bits by Unicode's definition
			b = appendUnit(b, 0xdc00|uint16(r&0x3ff))
		}
	}
	return b
}

// appendUnit appends one UTF-16 unit as \uxxxx.
func appendUnit(b []byte, u uint16) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// AppendTrace appends an fbtrace_id: eleven characters, as the platform's are.
func AppendTrace(b []byte, n uint64) []byte {
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], Mix(n))
	return base64.RawURLEncoding.AppendEncode(b, raw[:])
}

// AppendMID appends a message id: m_ and 43 characters. Different numbers give
// different ids.
func AppendMID(b []byte, seed, n uint64) []byte {
	var raw [32]byte
	x := Mix(n) // a bijection, so no two numbers share an id
	binary.LittleEndian.PutUint64(raw[:], x)
	for i := 8; i < len(raw); i += 8 {
		binary.LittleEndian.PutUint64(raw[i:], Mix(x^seed+uint64(i)))
	}
	b = append(b, "m_"...)
	return base64.RawURLEncoding.AppendEncode(b, raw[:])
}

// Mix is the finaliser of SplitMix64: a bijection whose outputs look random.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
