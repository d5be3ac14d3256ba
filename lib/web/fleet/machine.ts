/** A machine's own page, reached through its control plane: `machine?part=ID`. */

import "../shared/styles.css";
import { mount } from "svelte";
import { giveEveryNumberJson } from "../machine/link/any_number.ts";
import { takeInputWithCare } from "../shared/careful_input.ts";
import ThroughCloud from "./machine/through_cloud.svelte";

giveEveryNumberJson();
takeInputWithCare();
mount(ThroughCloud, { target: document.getElementById("page")! });
