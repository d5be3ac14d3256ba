import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "./log.ts";
import { shownUrl, shownUrlsIn } from "./shown_url.ts";

Deno.test("shownUrl: no user, no password, and shortened signatures", () => {
  for (
    const [url, shown] of [
      ["https://cloud.example/a?b=c&d=e#f", "https://cloud.example/a?b=c&d=e#f"],
      ["https://user:hunter2@cloud.example:8443/a", "https://cloud.example:8443/a"],
      ["https://tok%40en@cloud.example", "https://cloud.example"],
      // A wrong address, whose password has the characters of one.
      ["https://user:p@ss@cloud.example/a", "https://cloud.example/a"],
      ["user:hunter2@cloud.example", "cloud.example"],
      [
        "https://s/f?X-Amz-Signature=0123456789abcdef0123&X-Amz-Expires=60",
        "https://s/f?X-Amz-Signature=0123…&X-Amz-Expires=60",
      ],
      ["https://s/f?sv=2024&sig=abcdefghijklmnopqrstu%3D", "https://s/f?sv=2024&sig=abcd…"],
      ["https://s/f?token=short&key=ab&file=robot", "https://s/f?token=…&key=…&file=robot"],
      // Of networks for delivery.
      ["https://s/f?hdnts=exp=1~acl=/*~hmac=0123456789abcdef", "https://s/f?hdnts=exp=…"],
      ["https://s/f#access_token=abcdefghijklmnopqrst", "https://s/f#access_token=abcd…"],
      ["rtsp://admin:hunter2@10.0.0.9/stream", "rtsp://10.0.0.9/stream"],
      ["rtsp://admin:p@ss#hunter2@10.0.0.9/stream", "rtsp://10.0.0.9/stream"],
      ["https://user:hunter2@cloud.example#part", "https://cloud.example#part"],
      // Cameras have them in the path, or by names of their own.
      [
        "rtsp://10.0.0.9/user=admin&password=hunter2&channel=1.sdp?real_stream",
        "rtsp://10.0.0.9/user=admin&password=…&channel=1.sdp?real_stream",
      ],
      ["http://eye/a/pwd=hunter2/b", "http://eye/a/pwd=…"],
      ["http://eye/s.cgi?loginuse=me&loginpas=hunter2", "http://eye/s.cgi?loginuse=me&loginpas=…"],
      ["https://s/a=1/b=c?next=/x/key/y", "https://s/a=1/b=c?next=/x/key/y"],
      ["https://s/f?keyboard=qwerty&monkey=1&sigma=2", "https://s/f?keyboard=qwerty&monkey=1&sigma=2"],
      ["", ""],
    ]
  ) assertEquals(shownUrl(url), shown);
});

Deno.test("shownUrlsIn: every address in a text; the rest of the text stays", () => {
  assertEquals(
    shownUrlsIn('cannot get "http://u:hunter2@a/b" (http://u:hunter2@c/d), nor http://e/f?token=abc.'),
    'cannot get "http://a/b" (http://c/d), nor http://e/f?token=….',
  );
  for (const text of ["", "a@b.example", "1:2//3", "x://"]) assertEquals(shownUrlsIn(text), text);
  // Nothing hostile takes long.
  assert(shownUrlsIn(`a://${"@".repeat(50_000)}`).length < 10);
});

Deno.test("Logs: no log line has a password of an address, in its message or a field", () => {
  const records: LogRecord[] = [];
  const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("x");
  logger.warn("no answer from rtsp://u:hunter2@camera/1", { url: "http://u:hunter2@h/p", count: 1 });
  assertEquals(records.map(({ message, fields }) => [message, fields]), [[
    "no answer from rtsp://camera/1",
    { url: "http://h/p", count: 1 },
  ]]);
});
