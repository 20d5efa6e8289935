package webhook

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Messenger sends this signature, too
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// sign returns the values of X-Hub-Signature-256 and, for receivers written
// before 2022, of X-Hub-Signature.
func sign(secret string, body []byte) (sha2, legacy string) {
	return "sha256=" + hexMAC(sha256.New, secret, body), "sha1=" + hexMAC(sha1.New, secret, body)
}

func hexMAC(h func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(h, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
