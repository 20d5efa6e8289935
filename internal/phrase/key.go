package phrase

// Key names a text. The comment behind each constant lists its placeholders.
// {n} chooses between the text for one and the text for others.
type Key string

// Texts about rooms.
const (
	Help         Key = "help"          // the commands
	WelcomeFirst Key = "welcome_first" // {room}, {name}: joined as the first member
	Welcome      Key = "welcome"       // {room}, {name}, {n} others
	Where        Key = "where"         // {room}, {n} others: asked for by a member
	Left         Key = "left"          // {room}
	NotInRoom    Key = "not_in_room"
	AlreadyIn    Key = "already_in"   // {room}
	RoomFull     Key = "room_full"    // {room}, {next}: the room is full, the user is in the next one
	RoomUnknown  Key = "room_unknown" // {room}
	RoomInvalid  Key = "room_invalid" // {max} characters
	RoomsTitle   Key = "rooms_title"
	RoomsLine    Key = "rooms_line" // {room}, {n} members
	RoomsNone    Key = "rooms_none"
	RoomsMore    Key = "rooms_more" // {n} rooms beyond those listed
	Who          Key = "who"        // {room}, {n} members including the user, {names}
	WhoAlone     Key = "who_alone"  // {room}
	Idle         Key = "idle"       // {room}, {for}: out of the room after so long a silence
)

// Texts about names.
const (
	NameChanged Key = "name_changed" // {name}
	NameTaken   Key = "name_taken"   // {name}: another has it, or had it in the last day
	NameHouse   Key = "name_house"   // {name}: nobody may choose it
	NameOften   Key = "name_often"   // {for}: too many names, no other for so long
	NameInvalid Key = "name_invalid"
	NameLong    Key = "name_long"  // {max} characters
	NameUsage   Key = "name_usage" // /name without a name
)

// Texts about blocking, muting and reporting.
const (
	Blocked      Key = "blocked"       // {name}
	BlockUsage   Key = "block_usage"   // /block without a name
	BlockSelf    Key = "block_self"    // a user cannot block itself
	Unblocked    Key = "unblocked"     // {name}
	UnblockUsage Key = "unblock_usage" // /unblock without a name
	NotBlocked   Key = "not_blocked"   // {name}: the user had not blocked that member
	NoMember     Key = "no_member"     // {name}: nobody called so is in the room, or was in the last day
	NoNumber     Key = "no_number"     // {number}: the list that the user saw has no such number
	Muted        Key = "muted"         // {for}: no messages for so long
	Unmuted      Key = "unmuted"
	MuteUsage    Key = "mute_usage" // {min}, {max}: /mute with something that is no duration
	Reported     Key = "reported"   // {name}
	ReportUsage  Key = "report_usage"
)

// Texts about messages that are not passed on.
const (
	Flood          Key = "flood"        // {for}: too many messages at once, none is passed on for so long
	FloodCopies    Key = "flood_copies" // too much for so full a room, for some seconds
	FloodMedia     Key = "flood_media"  // {for}: no audio or video is passed on for so long
	Banned         Key = "banned"       // for good
	BannedFor      Key = "banned_for"   // {for}
	TextEmpty      Key = "text_empty"   // the message holds nothing visible
	TextLong       Key = "text_long"
	FileRefused    Key = "file_refused"    // no attachment has a usable address
	FilesLeft      Key = "files_left"      // not all attachments are passed on
	LeftOut        Key = "left_out"        // {n} messages to the room, which would have come late
	UnknownCommand Key = "unknown_command" // {command}
)

// Titles of buttons, of at most 20 characters.
const (
	ButtonRooms   Key = "button_rooms"
	ButtonWho     Key = "button_who"
	ButtonHelp    Key = "button_help"
	ButtonLeave   Key = "button_leave"
	ButtonJoin    Key = "button_join" // any room
	ButtonMute    Key = "button_mute" // for an hour
	ButtonUnmute  Key = "button_unmute"
	ButtonBlock   Key = "button_block"   // {name}: may become too long for a button, see fanout.Reply
	ButtonUnblock Key = "button_unblock" // {name}: the same
)
