package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"chatclub/internal/message"
)

// Deletions returns the handler of Meta's data deletion callback. POST puts the
// request of a user on an inbound partition and answers where its status can be read,
// after the broker has confirmed it. GET returns that status
// (developers.facebook.com/docs/apps/delete-data).
func (h *Handler) Deletions() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, deletionStatus, h.postDeletion)
	})
}

// maxDeletion is the longest form that is read. Meta's has some hundred bytes, and
// to parse a long one of many fields would take a multiple of its memory.
const maxDeletion = 64 << 10

// postDeletion answers a user's request.
func (h *Handler) postDeletion(w http.ResponseWriter, r *http.Request) answer {
	var d deletion
	_, release, res := h.readVerified(w, r, maxDeletion, func(body []byte) (ok bool) {
		d, ok = parseDeletion(body, h.cfg.AppSecret)
		return ok
	})
	defer release()
	if res != accepted {
		return answer{result: res}
	}
	e := message.Event{Kind: message.KindDeletion, ID: d.code(h.cfg.AppSecret), User: clean(d.UserID), Time: h.cfg.Now().UnixMilli()}
	if !valid(e) {
		return answer{result: badRequest}
	}
	if res := h.enqueue(r.Context(), Parts{Events: []message.Event{e}}); res != accepted {
		return answer{result: res}
	}
	text, err := json.Marshal(map[string]string{"url": h.cfg.DeletionURL + "?code=" + e.ID, "confirmation_code": e.ID})
	if err != nil {
		return answer{result: unavailable} // texts can be encoded
	}
	return answer{result: accepted, text: string(text), contentType: "application/json"}
}

// deletion is the content of a signed_request.
type deletion struct {
	Algorithm string `json:"algorithm"`
	UserID    string `json:"user_id"` // of the user in this app, not on a page
}

// parseDeletion returns the request in a body's form, if it is signed with
// secret. Nothing but the form is parsed before that.
func parseDeletion(body, secret []byte) (deletion, bool) {
	var d deletion
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return d, false
	}
	claimed, payload, _ := strings.Cut(form.Get("signed_request"), ".")
	var s signature
	if !decodeBase64(claimed, s[:]) || !s.verifies([]byte(payload), secret) {
		return d, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(payload, "="))
	return d, err == nil && json.Unmarshal(raw, &d) == nil && strings.EqualFold(d.Algorithm, "HMAC-SHA256")
}

// decodeBase64 fills into with the bytes of a text, and reports whether they are as
// many.
func decodeBase64(text string, into []byte) bool {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	return err == nil && copy(into, raw) == len(into) && len(raw) == len(into)
}

// code returns the confirmation code of a request, the same for each of a user's. It
// tells nothing about the user to those without the secret.
func (d deletion) code(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("deletion/" + d.UserID))
	return hex.EncodeToString(mac.Sum(nil)[:digestBytes])
}

// code matches the codes that deletion.code returns.
var code = regexp.MustCompile(`^[0-9a-f]{32}$`)

// status is the answer to a user who asks about its request. The id in a request is the
// user's id in the app, by which no page knows it: an operator has to find the user.
const status = `Deletion request CODE

Your request was received. Facebook knows you by another id than the page that you
wrote to, so nothing can be found under the id in your request. Write to that page
in Messenger and give the code above: its operators then find and delete your data.

Deleted are your name, language, room, and the blocks and reports by you and about
you. If you are banned, your id and the ban stay until it ends.
`

func deletionStatus(r *http.Request) answer {
	given := r.URL.Query().Get("code")
	if !code.MatchString(given) {
		return answer{result: badRequest}
	}
	return answer{result: verified, text: strings.Replace(status, "CODE", given, 1)}
}
