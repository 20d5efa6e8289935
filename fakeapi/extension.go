package fakeapi

import (
	"errors"

	"github.com/valyala/fasthttp"
)

// Extension is a package's addition to a platform: requests of its own, a page, and
// users who are played by hand. Package web is one.
type Extension struct {
	// Handle answers a request and reports whether it was one of its own.
	Handle func(*Request, *Response) bool
	// HandlePage does the same for a browser's GET, which comes by a socket. A
	// stream must end when done is closed.
	HandlePage func(ctx *fasthttp.RequestCtx, done <-chan struct{}) bool
	// People are the users who are played by hand; nil: there are none.
	People People
}

// People are users of whose messages the copies cannot be announced, because
// they are played by hand. The methods are called for every send, by the
// goroutine that answers it, and must not block.
type People interface {
	// Concerns reports whether a send is for one of them, or is a copy of a
	// message of theirs. Its id then counts as expected when it is accepted.
	Concerns(recipient, id string) bool
	// Left reports whether the recipient is one of them who is not on the page.
	// Sends to it are answered 551.
	Left(page, recipient string) bool
}

// Extend adds x to the platform, which can have one extension.
func (a *API) Extend(x Extension) error {
	if !a.extension.CompareAndSwap(nil, &x) {
		return errors.New("the platform has an extension already")
	}
	return nil
}

// extended lets the extension answer a request, and reports whether it did.
func (a *API) extended(req *Request, resp *Response) bool {
	x := a.extension.Load()
	return x != nil && x.Handle != nil && x.Handle(req, resp)
}

// people returns the users who are played by hand, nil if there are none.
func (a *API) people() People {
	if x := a.extension.Load(); x != nil {
		return x.People
	}
	return nil
}

// left returns the answer to a send for a user who is played by hand and has left
// the page.
func (c *call) left(to string) *answer {
	if people := c.api.people(); people != nil && people.Left(c.page.id, to) {
		return errGone
	}
	return nil
}
