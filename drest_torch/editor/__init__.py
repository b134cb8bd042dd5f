"""The page on which one draws a level and sees what agents do on it: its answers, its server and its static export."""
