package rooms

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/command"
)

// byNumber receives a command about the person at a number of the list.
func byNumber(t testing.TB, s *Store, user string, kind command.Kind, n int) Result {
	t.Helper()
	return receive(t, s, Event{User: user, ID: rand.Text(), Command: command.Command{Kind: kind, Number: n}})
}

// rowsOf returns how many rows of a table there are.
func rowsOf(t testing.TB, s *Store, from string) (n int) {
	t.Helper()
	if err := s.do(t.Context(), one(nil, `SELECT COUNT(*) FROM `+from, nil, &n)); err != nil {
		t.Fatal(err)
	}
	return n
}

func wantNotice(t testing.TB, what string, got Result, notice Notice, subject string) {
	t.Helper()
	if got.Notice != notice || got.Subject != subject {
		t.Errorf("%s = %q about %q, want %q about %q", what, got.Notice, got.Subject, notice, subject)
	}
}

// TestPersonIsFound checks that a person is blocked and reported under the name
// that was heard, whatever became of it since. The person is b, Bo of the trio.
func TestPersonIsFound(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		for what, since := range map[string]func(*Store){
			"is there":          func(*Store) {},
			"renamed":           func(s *Store) { does(t, s, "b", command.Name, "Lamb") },
			"renamed twice":     func(s *Store) { does(t, s, "b", command.Name, "Lamb"); does(t, s, "b", command.Name, "Sheep") },
			"left":              func(s *Store) { does(t, s, "b", command.Leave, "") },
			"went elsewhere":    func(s *Store) { does(t, s, "b", command.Join, "x") },
			"renamed, and left": func(s *Store) { does(t, s, "b", command.Name, "Lamb"); does(t, s, "b", command.Leave, "") },
			"left, came renamed": func(s *Store) {
				does(t, s, "b", command.Leave, "")
				does(t, s, "b", command.Name, "Lamb")
				says(t, s, "b")
			},
			"gone": func(s *Store) {
				if err := s.Gone(t.Context(), "p", "b", noon); err != nil {
					t.Fatal(err)
				}
			},
			"banned": func(s *Store) {
				if err := s.Ban(t.Context(), "p", "b", time.Time{}); err != nil {
					t.Fatal(err)
				}
			},
			"silent":          func(s *Store) { receive(t, s, Event{User: "b", ID: "idle", At: noon.Add(time.Hour), Idle: true}) },
			"the victim left": func(s *Store) { does(t, s, "a", command.Leave, "") },
			"the victim went": func(s *Store) { does(t, s, "a", command.Join, "x") },
			"both left, he returned": func(s *Store) {
				does(t, s, "a", command.Leave, "")
				does(t, s, "b", command.Leave, "")
				says(t, s, "b")
			},
		} {
			if testing.Short() && strings.HasPrefix(url, "postgres:") && !strings.Contains(what, "left") {
				continue // SQLite has them all
			}
			t.Run(what, func(t *testing.T) {
				s := trio(t, Config{DatabaseURL: fresh(t, url), Idle: time.Hour, Now: func() time.Time { return noon }})
				does(t, s, "a", command.Who, "")
				receive(t, s, Event{User: "b", ID: "insult", Command: command.Command{Text: "an insult"}})
				since(s)
				for _, name := range []string{"Bo", "bo", "Во", "Bo."} {
					wantNotice(t, "Report "+name, does(t, s, "a", command.Report, name), Reported, "Bo")
				}
				wantNotice(t, "Report 2", byNumber(t, s, "a", command.Report, 2), Reported, "Bo")
				wantNotice(t, "Block 2", byNumber(t, s, "a", command.Block, 2), Blocked, "Bo")
				wantNotice(t, "Unblock 2", byNumber(t, s, "a", command.Unblock, 2), Unblocked, "Bo")
				wantNotice(t, "Block Bo", does(t, s, "a", command.Block, "Bo"), Blocked, "Bo")
				reports, err := s.Reports(t.Context(), "p", ReportView{}, 10)
				if err != nil || len(reports) != 1 || reports[0].Accused != "b" || reports[0].Room != 1 || reports[0].Times != 5 {
					t.Fatalf("Reports() = %+v, %v, want one about b in room 1, five times", reports, err)
				}
				if diff := cmp.Diff([]ReportedText{{noon, "an insult"}}, reports[0].Texts); diff != "" {
					t.Errorf("texts of the report: -want +got\n%s", diff)
				}
				if got := rowsOf(t, s, `blocks WHERE blocker = 'a' AND blocked = 'b'`); got != 1 {
					t.Errorf("blocks of b by a = %d, want one", got)
				}
				wantNotice(t, "Unblock Во", does(t, s, "a", command.Unblock, "Во"), Unblocked, "Во")
			})
		}
	})
}

// fresh returns the URL, or for a database that has had a test that of a new one.
func fresh(t testing.TB, url string) string {
	t.Helper()
	for _, db := range databases() {
		if other := db.url(t); strings.SplitN(other, ":", 3)[0] == strings.SplitN(url, ":", 3)[0] {
			return other
		}
	}
	return url
}

// TestNameStaysADay checks that nobody gets a name that another gave up, or one
// that looks like it, until a day later. Its last bearer may take it back.
func TestNameStaysADay(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		does(t, s, "b", command.Name, "Lamb")
		for _, name := range []string{"Bo", "BO", "Во", "Bo."} {
			wantNotice(t, "Name "+name, does(t, s, "c", command.Name, name), NameTaken, name)
		}
		if got := does(t, s, "b", command.Name, "Bo"); got.Notice != Renamed {
			t.Errorf("Name of its last bearer = %q, want %q", got.Notice, Renamed)
		}
		does(t, s, "b", command.Leave, "")
		does(t, s, "d", command.Name, "Bo")
		if got := says(t, s, "d").Name; got != "Bo 2" {
			t.Errorf("name of a newcomer Bo = %q, want Bo 2", got)
		}
		if got := says(t, s, "b").Name; got != "Bo" {
			t.Errorf("name of Bo who comes back = %q, want Bo", got)
		}
		does(t, s, "b", command.Leave, "")
		now.Advance(nameKept - time.Millisecond)
		wantNotice(t, "Name Bo a day later", does(t, s, "c", command.Name, "Bo"), NameTaken, "Bo")
		wantNotice(t, "Block Bo a day later", does(t, s, "a", command.Block, "Bo"), Blocked, "Bo")
		now.Advance(time.Millisecond)
		if _, err := s.Prune(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		wantNotice(t, "Block Bo after it", does(t, s, "a", command.Block, "Bo"), NoMember, "Bo")
		if got := does(t, s, "c", command.Name, "Bo").Notice; got != Renamed {
			t.Errorf("Name Bo after it = %q, want %q", got, Renamed)
		}
		if got := rowsOf(t, s, `past_names WHERE name = 'Bo'`); got != 0 {
			t.Errorf("rows of Bo's name after it = %d, want none", got)
		}
	})
}

// TestNobodyIsAnother checks that names which look like another's, or like those
// of the house, cannot be taken.
func TestNobodyIsAnother(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		says(t, s, "d") // Guest 1
		for name, want := range map[string]Notice{
			"Аna": NameTaken, "Ａna": NameTaken, "𝐀𝐧𝐚": NameTaken, "Ana.": NameTaken, "Вo": NameTaken, "B o": NameTaken,
			"chatclub": NameHouse, "Сhatclub": NameHouse, "admin": NameHouse, "Operator": NameHouse, "system": NameHouse, "Moderator": NameHouse,
			"Guest 1": NameHouse, "Guest l": NameHouse, "guest 2": NameHouse, "3": NameHouse,
		} {
			wantNotice(t, "Name "+name, does(t, s, "c", command.Name, name), want, name)
			if want == NameTaken {
				does(t, s, "e", command.Name, name)
				if got := says(t, s, "e").Name; !strings.HasSuffix(got, " 2") {
					t.Errorf("name of a newcomer %q = %q, want it with a number", name, got)
				}
				does(t, s, "e", command.Leave, "")
				write(t, s, `DELETE FROM past_names WHERE psid = 'e'`)
			}
		}
		for _, name := range []string{"guest 1", "Di", "Guest 1"} { // its own
			if got := does(t, s, "d", command.Name, name).Notice; got != Renamed {
				t.Errorf("Name %s of Guest 1 = %q, want %q", name, got, Renamed)
			}
		}
		does(t, s, "d", command.Name, "guest 1")
		does(t, s, "d", command.Leave, "")
		if got := says(t, s, "d").Name; got != "guest 1" {
			t.Errorf("name of guest 1 who comes back = %q, want it unchanged", got)
		}
		wantNotice(t, "Name Guest 5 outside of a room", does(t, s, "z", command.Name, "Guest 5"), NameHouse, "Guest 5")
	})
}

// TestRenameIsTold checks that a room hears of another name, also if its bearer
// left in between.
func TestRenameIsTold(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		does(t, s, "c", command.Mute, "") // For is 0: gets messages
		check := func(what string, got Result, was, relay string) {
			t.Helper()
			if got.Was != was || strings.Join(got.Relay, "") != relay {
				t.Errorf("%s is told as from %q to %q, want %q to %q", what, got.Was, strings.Join(got.Relay, ""), was, relay)
			}
		}
		check("a new name", does(t, s, "b", command.Name, "Lamb"), "Bo", "ac")
		check("the same name", does(t, s, "b", command.Name, "Lamb"), "", "")
		check("a name that is taken", does(t, s, "b", command.Name, "Ana"), "", "")
		does(t, s, "b", command.Leave, "")
		check("a name outside", does(t, s, "b", command.Name, "Sheep"), "", "")
		check("coming back by Start", does(t, s, "b", command.Start, ""), "Lamb", "ac")
		does(t, s, "b", command.Leave, "")
		check("coming back as before", does(t, s, "b", command.Start, ""), "", "")
		does(t, s, "b", command.Leave, "")
		does(t, s, "b", command.Name, "Wolf")
		check("coming back with a message", says(t, s, "b"), "Sheep", "ac")
		check("coming into another room", does(t, s, "b", command.Join, "x"), "", "")
		does(t, s, "a", command.Block, "Wolf")
		does(t, s, "b", command.Join, "1")
		check("a new name of one who is blocked", does(t, s, "b", command.Name, "Fox"), "Wolf", "c")
	})
}

// TestManyNames checks that a user gives up five names a day in a room, whether it
// renames itself or leaves, and may take back each.
func TestManyNames(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		for i := range maxNames {
			now.Advance(time.Minute)
			name := "Name " + string(rune('A'+i))
			if i%2 == 0 {
				does(t, s, "b", command.Name, name)
				continue
			}
			does(t, s, "b", command.Leave, "")
			does(t, s, "b", command.Name, name)
			if got := says(t, s, "b").Name; got != name {
				t.Errorf("name %d = %q, want %q", i, got, name)
			}
		}
		got := does(t, s, "b", command.Name, "Name Z")
		if until := noon.Add(nameKept + time.Minute); got.Notice != NameOften || !got.Until.Equal(until) {
			t.Errorf("one name more = %q until %v, want %q until %v", got.Notice, got.Until, NameOften, until)
		}
		now.Advance(time.Minute)
		does(t, s, "b", command.Leave, "")
		does(t, s, "b", command.Name, "Name Z")
		if got := says(t, s, "b").Name; got != "Name E" {
			t.Errorf("name in the room after leaving = %q, want the last there, Name E", got)
		}
		if got := does(t, s, "b", command.Name, "Bo"); got.Notice != Renamed {
			t.Errorf("the first name again = %q, want %q", got.Notice, Renamed)
		}
		for _, name := range []string{"Bo", "Name A", "Name B", "Name C", "Name D", "Name E"} {
			wantNotice(t, "Block "+name, does(t, s, "a", command.Block, name), Blocked, name)
		}
	})
}

// TestShownNumbers checks that a number means the list that the user saw last, for a
// day, also when users came or left since.
func TestShownNumbers(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now})
		wantNotice(t, "Block 2 before a list", byNumber(t, s, "a", command.Block, 2), NoMember, "2")
		if diff := cmp.Diff([]string{"Ana", "Bo", "Cy"}, does(t, s, "a", command.Who, "").Names); diff != "" {
			t.Errorf("Who: -want +got\n%s", diff)
		}
		does(t, s, "b", command.Leave, "")
		does(t, s, "d", command.Name, "Bert")
		says(t, s, "d")
		wantNotice(t, "Block 1", byNumber(t, s, "a", command.Block, 1), Oneself, "Ana")
		wantNotice(t, "Block 2", byNumber(t, s, "a", command.Block, 2), Blocked, "Bo")
		wantNotice(t, "Unblock 3", byNumber(t, s, "a", command.Unblock, 3), NotBlocked, "Cy")
		wantNotice(t, "Block 4", byNumber(t, s, "a", command.Block, 4), NoMember, "4")
		wantNotice(t, "Block 2 of another", byNumber(t, s, "c", command.Block, 2), NoMember, "2")
		does(t, s, "a", command.Who, "")
		wantNotice(t, "Block 2 of a new list", byNumber(t, s, "a", command.Block, 2), Blocked, "Bert")
		now.Advance(nameKept)
		wantNotice(t, "Block 2 a day later", byNumber(t, s, "a", command.Block, 2), NoMember, "2")
		wantNotice(t, "Unblock 2 a day later", byNumber(t, s, "a", command.Unblock, 2), NoMember, "2")
		if _, err := s.Prune(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		if got := rowsOf(t, s, `shown_members`); got != 0 {
			t.Errorf("lists a day later = %d, want none", got)
		}
	})
}

// TestReportKeepsTexts checks which texts a report has, and that they go with it.
func TestReportKeepsTexts(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		now := &clock{now: noon}
		s := trio(t, Config{DatabaseURL: url, Now: now.Now, FloodLimit: 4, FloodPeriod: time.Minute})
		say := func(user, text string, files ...string) Result {
			t.Helper()
			now.Advance(time.Minute)
			return receive(t, s, Event{User: user, ID: rand.Text(), At: now.Now(), Command: command.Command{Text: text}, Files: files})
		}
		want := func(what, name string, texts ...string) {
			t.Helper()
			receive(t, s, Event{User: "a", ID: rand.Text(), At: now.Now(), Command: wish(command.Report, name)})
			now.Advance(2 * time.Minute)
			list, err := s.Reports(t.Context(), "p", ReportView{}, 1)
			if err != nil || len(list) != 1 {
				t.Fatalf("Reports() = %+v, %v, want one", list, err)
			}
			var got []string
			for _, text := range list[0].Texts {
				got = append(got, text.Text)
			}
			if diff := cmp.Diff(texts, got); diff != "" {
				t.Errorf("texts %s: -want +got\n%s", what, diff)
			}
		}
		want("of one who wrote nothing", "Cy")

		say("b", "old")
		now.Advance(nameKept - time.Minute)
		say("b", " see\x00 this ", "https://h/1", "https://h/2", "https://h/3", "https://h/4")
		say("b", strings.Repeat("ä", maxKept+1))
		say("c", "of another")
		does(t, s, "b", command.Join, "x")
		say("b", "elsewhere")
		receive(t, s, Event{User: "b", ID: rand.Text(), At: now.Now(), Command: wish(command.Join, "1")})
		for i := range 6 { // more than the allowance, at once
			receive(t, s, Event{User: "b", ID: "flood" + strconv.Itoa(i), At: now.Now(), Command: command.Command{Text: fmt.Sprint("flood ", i)}})
		}
		first := []string{"see this\nhttps://h/1\nhttps://h/2\nhttps://h/3", strings.Repeat("ä", maxKept-1) + "…", "flood 0", "flood 1"}
		want("of Bo", "Bo", first...)

		// Later texts do not push out those of the first report.
		for i := range 25 {
			say("b", fmt.Sprint("later ", 10+i))
		}
		later := make([]string, 10)
		for i := range later {
			later[i] = fmt.Sprint("later ", 25+i)
		}
		want("after a second report", "Bo", append(first, later...)...)
		for i := range 30 {
			say("b", fmt.Sprint("much later ", 10+i))
			if i%10 == 9 {
				receive(t, s, Event{User: "a", ID: rand.Text(), At: now.Now(), Command: wish(command.Report, "Bo")})
			}
		}
		list, err := s.Reports(t.Context(), "p", ReportView{}, 1)
		if n := len(list[0].Texts); err != nil || n < maxTexts || n >= maxTexts+textsKept {
			t.Errorf("texts of many reports = %d, %v, want about %d", n, err, maxTexts)
		}

		now.Advance(reportsKept - time.Hour)
		if _, err := s.Prune(t.Context(), now.Now()); err != nil {
			t.Fatal(err)
		}
		if list, err := s.Reports(t.Context(), "p", ReportView{}, 10); err != nil || len(list) != 1 || len(list[0].Texts) < maxTexts {
			t.Errorf("reports before their end = %d, %v, want Bo's with its texts", len(list), err)
		}
		now.Advance(time.Hour + time.Minute)
		if _, err := s.Prune(t.Context(), now.Now()); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"reports", "report_texts", "processed_events"} {
			if got := rowsOf(t, s, table); got != 0 {
				t.Errorf("rows of %s after it = %d, want none", table, got)
			}
		}
	})
}

// TestLateJoinsNothing checks that what a user wrote before it left neither brings
// it back nor is told to the room where it is now.
func TestLateJoinsNothing(t *testing.T) {
	t.Parallel()
	onEach(t, databases(), func(t *testing.T, url string) {
		s := trio(t, Config{DatabaseURL: url})
		at := func(user string, kind command.Kind, arg string, at time.Time) Result {
			t.Helper()
			return receive(t, s, Event{User: user, ID: rand.Text(), At: at, Command: wish(kind, arg)})
		}
		left := noon.Add(time.Minute)
		at("b", command.Leave, "", left)
		late := left.Add(-time.Millisecond)
		for _, kind := range []command.Kind{command.None, command.Start, command.Join} {
			if diff := cmp.Diff(Result{Rejected: true}, at("b", kind, "", late)); diff != "" {
				t.Errorf("late %v: -want +got\n%s", kind, diff)
			}
		}
		wantRelay(t, "after those", s, "a", "c")
		if got := at("b", command.Join, "jazz", left); got.Notice != Welcome {
			t.Errorf("join at the time of leaving = %q, want %q", got.Notice, Welcome)
		}
		at("c", command.Join, "jazz", left)
		if got := at("b", command.None, "", late); !got.Rejected || len(got.Relay) > 0 {
			t.Errorf("late message of one who is in another room = %+v, want it rejected", got)
		}
		if got := at("b", command.None, "", left); strings.Join(got.Relay, "") != "c" {
			t.Errorf("message after leaving goes to %v, want c", got.Relay)
		}
		// A sweep takes out a user that seemed silent. Its earlier text brings it back.
		s2 := trio(t, Config{DatabaseURL: fresh(t, url), Idle: time.Hour})
		receive(t, s2, Event{User: "b", ID: "idle", At: noon.Add(time.Hour), Idle: true})
		if got := receive(t, s2, Event{User: "b", ID: "late", At: noon.Add(time.Minute)}); !got.Joined {
			t.Errorf("late message of one who seemed silent = %+v, want it to join", got)
		}
	})
}
