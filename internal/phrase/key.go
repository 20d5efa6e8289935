package phrase

// Key names a text. Behind each stand its placeholders; {n} chooses between the
// text for one and the text for others.
type Key string

// What is said of rooms.
const (
	Help         Key = "help"          // the commands
	WelcomeFirst Key = "welcome_first" // {room}, {name}: joined, nobody else there
	Welcome      Key = "welcome"       // {room}, {name}, {n} others
	Where        Key = "where"         // {room}, {n} others: asked again by one who is in
	Left         Key = "left"          // {room}
	NotInRoom    Key = "not_in_room"
	AlreadyIn    Key = "already_in"   // {room}
	RoomFull     Key = "room_full"    // {room}, {next}: is full, you are in the next
	RoomUnknown  Key = "room_unknown" // {room}
	RoomInvalid  Key = "room_invalid" // {max} characters
	RoomsTitle   Key = "rooms_title"
	RoomsLine    Key = "rooms_line" // {room}, {n} members
	RoomsNone    Key = "rooms_none"
	RoomsMore    Key = "rooms_more" // {n} more than are listed
	Who          Key = "who"        // {room}, {n} members you among them, {names}
	WhoAlone     Key = "who_alone"  // {room}
	WhoMore      Key = "who_more"   // {n} more than are named
	Idle         Key = "idle"       // {room}, {for}: silent that long and therefore out
)

// What is said of names.
const (
	NameChanged Key = "name_changed" // {name}
	NameTaken   Key = "name_taken"   // {name}
	NameInvalid Key = "name_invalid"
	NameLong    Key = "name_long"  // {max} characters
	NameUsage   Key = "name_usage" // /name without a name
)

// What is said of blocking, muting and reporting.
const (
	Blocked      Key = "blocked"       // {name}
	BlockUsage   Key = "block_usage"   // /block without a name
	BlockSelf    Key = "block_self"    // nobody blocks oneself
	Unblocked    Key = "unblocked"     // {name}
	UnblockUsage Key = "unblock_usage" // /unblock without a name
	NotBlocked   Key = "not_blocked"   // {name}: was not blocked
	NobodyNamed  Key = "nobody_named"  // {name}: no such member
	Muted        Key = "muted"         // {for}: no messages that long
	Unmuted      Key = "unmuted"
	MuteUsage    Key = "mute_usage" // {min}, {max}: /mute with what is no time
	Reported     Key = "reported"   // {name}
	ReportUsage  Key = "report_usage"
)

// What is said of messages that are not passed on.
const (
	Flood          Key = "flood"       // {for}: written too fast, nothing is passed on that long
	Banned         Key = "banned"      // for good
	BannedFor      Key = "banned_for"  // {for}
	PagePaused     Key = "page_paused" // the platform takes nothing from the page
	TextEmpty      Key = "text_empty"  // nothing visible in it
	TextLong       Key = "text_long"
	FileRefused    Key = "file_refused"    // attachments that are none
	UnknownCommand Key = "unknown_command" // {command}
)

// What stands on buttons, in at most 20 characters.
const (
	ButtonRooms   Key = "button_rooms"
	ButtonWho     Key = "button_who"
	ButtonHelp    Key = "button_help"
	ButtonLeave   Key = "button_leave"
	ButtonJoin    Key = "button_join" // any room
	ButtonMute    Key = "button_mute" // for an hour
	ButtonUnmute  Key = "button_unmute"
	ButtonBlock   Key = "button_block"   // {name}: may become longer than a button, see fanout.Reply
	ButtonUnblock Key = "button_unblock" // {name}: likewise
)
