/** The fleet's page: starts the application in the page's only element. */

import "../shared/styles.css";
import { mount } from "svelte";
import { takeInputWithCare } from "../shared/careful_input.ts";
import App from "./app.svelte";

takeInputWithCare();
mount(App, { target: document.getElementById("page")! });
