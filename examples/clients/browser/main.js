import { createRobotClient, EncoderClient, MotorClient, StreamClient } from "@viamrobotics/sdk";

// A machine with keys takes `credentials: { type: "api-key", authEntity: id, payload: key }` beside these.
const address = new URLSearchParams(location.search).get("machine") ?? "http://localhost:8080";
const robot = await createRobotClient({
  host: new URL(address).host,
  signalingAddress: address,
  serviceHost: address,
});

document.querySelector("#camera").srcObject = await new StreamClient(robot).getStream("camera1");

const motor = new MotorClient(robot, "motor1");
const encoder = new EncoderClient(robot, "encoder1");
document.querySelector("#turn").addEventListener("click", async () => {
  await motor.goFor(60, 1); // revolutions a minute, revolutions
  const [ticks] = await encoder.getPosition();
  document.querySelector("#ticks").value = `the encoder is at ${ticks} ticks`;
});
