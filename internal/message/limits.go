package message

// Limits are the calls per second that the platform takes for one page, for
// each quota class.
type Limits struct{ Text, Media float64 }

// Of returns the limit of a quota class, for package excess. A class that is
// unknown has the limit of text, as the platform counts all that is not media.
func (l Limits) Of(class string) float64 {
	if class == string(ClassMedia) {
		return l.Media
	}
	return l.Text
}
