import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeVideo } from "./fake.ts";

Deno.test("fake video: six parts with the request's id, 40 ms apart", async () => {
  const clock = new FakeClock();
  const video = await construct(FakeVideo, {}, { clock });
  const heard: string[] = [];
  const reading = (async () => {
    for await (const { data } of video.getVideo({ codec: "h264", container: "mp4", requestId: "r" })) {
      heard.push(new TextDecoder("latin1").decode(data.subarray(0, 9)));
      assertEquals(data.length, 10 + 512);
    }
  })();
  await clock.advance(120);
  assertEquals(heard.length, 3);
  await clock.advance(120);
  await reading;
  assertEquals(heard, [0, 1, 2, 3, 4, 5].map((part) => `fake-r-0${part}`));
});
