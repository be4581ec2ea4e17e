import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/controls.css";
import "./style/head.css";
import "./style/query.css";
import "./style/notice.css";
import "./style/explore.css";
import "./style/cluster.css";
import "./style/queries.css";
import "./style/alerts.css";
import "./style/dialog.css";
import "./style/narrow.css";
import { App } from "./app";

const page = document.getElementById("page");
if (page !== null) {
  page.textContent = "";
  render(<App />, page);
}
