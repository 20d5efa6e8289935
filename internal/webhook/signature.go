package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SignatureHeader is the header with the signature of a body. Its predecessor
// X-Hub-Signature is SHA-1 and not accepted.
const SignatureHeader = "X-Hub-Signature-256"

const signaturePrefix = "sha256="

// signature is the HMAC-SHA256 that a header value claims.
type signature [sha256.Size]byte

// parseSignature reads `sha256=` and 64 hexadecimal digits.
func parseSignature(header string) (signature, bool) {
	var s signature
	digits, ok := strings.CutPrefix(header, signaturePrefix)
	if !ok || len(digits) != hex.EncodedLen(len(s)) {
		return s, false
	}
	_, err := hex.Decode(s[:], []byte(digits))
	return s, err == nil
}

// verifies reports, in constant time, whether s is the signature of body with
// secret.
func (s signature) verifies(body, secret []byte) bool {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hmac.Equal(s[:], mac.Sum(nil))
}
