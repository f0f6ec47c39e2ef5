"""What every room uses: errors, processes, deadlines, settings, console, files and locks."""
