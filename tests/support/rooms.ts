/** Rooms: the folders that figures about the code are summed up by. */

/** `lib/wire`, `drivers`, `cli/server`: as deep as rooms are. */
export function roomOf(path: string): string {
  const [floor, room, ...more] = path.split("/");
  return more.length === 0 || floor === "drivers" ? floor : `${floor}/${room}`;
}
