import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeAudioOut } from "./fake.ts";

const FORMAT = { codec: "pcm16", sampleRateHz: 8000, numChannels: 1 };

Deno.test("fake loudspeaker: it takes as long as the sound, whole or in parts", async () => {
  const clock = new FakeClock();
  const audio = await construct(FakeAudioOut, {}, { clock });
  let over = false;
  const playing = audio.play(new Uint8Array(16_000), FORMAT).then(() => over = true);
  await clock.advance(999);
  assert(!over);
  await clock.advance(1);
  await playing;
  const parts = async function* () {
    yield new Uint8Array(1600);
    yield new Uint8Array(1600);
  };
  const streaming = audio.playStream(parts(), FORMAT);
  await clock.advance(200);
  await streaming;
});

Deno.test("fake loudspeaker: what cannot be played is refused, and a close ends what is played", async () => {
  const clock = new FakeClock();
  const audio = await construct(FakeAudioOut, {}, { clock });
  const sound = new Uint8Array(16);
  await assertRejects(() => audio.play(sound, undefined), SvcError, "no audio info");
  await assertRejects(() => audio.play(new Uint8Array(), FORMAT), SvcError, "no audio data");
  await assertRejects(() => audio.play(sound, { ...FORMAT, codec: "mp3" }), SvcError, 'codec "mp3"');
  const ended = assertRejects(() => audio.play(new Uint8Array(1e6), FORMAT), SvcError, "is closed");
  await clock.advance(1);
  await audio.close();
  await ended;
  assertEquals(clock.pending, 0);
});
